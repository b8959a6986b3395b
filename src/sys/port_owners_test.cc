#include "sys/port_owners.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <optional>
#include <sstream>

#include "base/unique_fd.h"

namespace divvy::sys {
namespace {

constexpr std::string_view kHeadings =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

std::string row(std::string_view local, std::string_view state, uid_t uid, int inode,
                std::string_view remote = "00000000:0000") {
  return fmt::format(
      "   0: {} {} {} 00000000:00000000 00:00000000 00000000 {:5}        0 {} 1 "
      "00000000f3fe6efc 100 0 0 10 0\n",
      local, remote, state, uid, inode);
}

std::optional<PortSocket> find(const std::string& tcp, const std::string& tcp6, Loopback loopback,
                               std::uint16_t port = 20'000) {
  std::istringstream one(std::string(kHeadings) + tcp);
  std::istringstream other(std::string(kHeadings) + tcp6);
  return find_listener(one, other, loopback, port);
}

TEST(PortOwners, ListenForTheLoopback) {
  if constexpr (std::endian::native != std::endian::little) GTEST_SKIP() << "the other way round";
  const std::string here = row("0100007F:4E20", "0A", 1001, 7);
  const std::string anywhere = row("00000000:4E20", "0A", 1002, 8);
  const std::string other = row("0200007F:4E20", "0A", 1003, 9) +  //
                            row("0100007F:4E21", "0A", 1003, 10);
  const std::string here6 = row("00000000000000000000000001000000:4E20", "0A", 1004, 11);
  const std::string anywhere6 = row("00000000000000000000000000000000:4E20", "0A", 1005, 12);
  const std::string mapped = row("0000000000000000FFFF00000100007F:4E20", "0A", 1006, 13);
  EXPECT_EQ(find(other + here, anywhere6, Loopback::kV4), (PortSocket{1001, 7}));
  EXPECT_EQ(find(anywhere + here, "", Loopback::kV4), (PortSocket{1001, 7}));
  EXPECT_EQ(find(other + anywhere, anywhere6, Loopback::kV4), (PortSocket{1002, 8}))
      << "the other one is of IPv6 alone: both could not be there otherwise";
  EXPECT_EQ(find(other, here6 + anywhere6, Loopback::kV4), (PortSocket{1005, 12}));
  EXPECT_EQ(find(other, mapped, Loopback::kV4), (PortSocket{1006, 13}));
  EXPECT_EQ(find(other, here6, Loopback::kV4), std::nullopt);
  EXPECT_EQ(find(here, here6, Loopback::kV6), (PortSocket{1004, 11}));
  EXPECT_EQ(find(here, anywhere6, Loopback::kV6), (PortSocket{1005, 12}));
  EXPECT_EQ(find(here + anywhere, mapped, Loopback::kV6), std::nullopt);
}

TEST(PortOwners, AreNotReadFromRowsThatAreCutShort) {
  const std::string connected = row("0100007F:4E20", "01", 1001, 7);
  EXPECT_EQ(find(connected, "", Loopback::kV4), std::nullopt);
  EXPECT_EQ(find("   0: 0100007F:4E20 00000000:0000 0A\n", "", Loopback::kV4), std::nullopt);
  EXPECT_EQ(find("", "", Loopback::kV4), std::nullopt);
}

TEST(PortOwners, AreAtTheOtherEndOfAConnection) {
  if constexpr (std::endian::native != std::endian::little) GTEST_SKIP() << "the other way round";
  const std::string theirs = row("0100007F:4E20", "01", 1001, 7, "0100007F:9C40");
  const std::string ours = row("0100007F:9C40", "01", 1002, 8, "0100007F:4E20");
  const std::string others = row("0100007F:4E20", "01", 1003, 9, "0100007F:9C41");
  const std::string mapped = row("0000000000000000FFFF00000100007F:4E20", "01", 1004, 10,
                                 "0000000000000000FFFF00000100007F:9C40");
  const auto find = [](const std::string& tcp, const std::string& tcp6) {
    std::istringstream one(std::string(kHeadings) + tcp);
    std::istringstream other(std::string(kHeadings) + tcp6);
    return find_connected(one, other, Loopback::kV4, 20'000, 40'000);
  };
  EXPECT_EQ(find(ours + others + theirs, ""), (PortSocket{1001, 7}));
  EXPECT_EQ(find(ours + others, mapped), (PortSocket{1004, 10}));
  EXPECT_EQ(find(ours + others, ""), std::nullopt);
}

sockaddr_in loopback_address(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return address;
}
std::uint64_t inode_of(int socket) {
  struct stat info{};
  EXPECT_EQ(::fstat(socket, &info), 0);
  return info.st_ino;
}

TEST(PortOwners, AreTheUsersOfSockets) {
  // Only root can make one that is somebody else's.
  const uid_t user = ::geteuid() == 0 ? 65'534 : ::geteuid();
  const auto as_user = [user](const auto& make) {
    ::setfsuid(user);
    UniqueFd made(make());
    ::setfsuid(::geteuid());
    return made;
  };
  const UniqueFd server = as_user([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  address = loopback_address(server.get());
  const std::uint16_t port = ntohs(address.sin_port);
  const auto before = listener_at(Loopback::kV4, port);
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(*before, std::nullopt) << "it has the port and does not listen";
  ASSERT_EQ(::listen(server.get(), 1), 0);
  const auto found = listener_at(Loopback::kV4, port);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, (PortSocket{user, inode_of(server.get())}));

  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::uint16_t from = ntohs(loopback_address(client.get()).sin_port);
  const auto waiting = connected_at(Loopback::kV4, port, from);
  ASSERT_TRUE(waiting && *waiting);
  EXPECT_EQ((*waiting)->inode, 0U) << "nobody has accepted it";
  const UniqueFd accepted = as_user([&] { return ::accept(server.get(), nullptr, nullptr); });
  const auto connected = connected_at(Loopback::kV4, port, from);
  ASSERT_TRUE(connected && *connected);
  EXPECT_EQ(**connected, (PortSocket{user, inode_of(accepted.get())}));
}

}  // namespace
}  // namespace divvy::sys
