#include "sys/port_owners.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::sys {
namespace {

constexpr const char* kTcpTable = "/proc/self/net/tcp";
constexpr const char* kTcp6Table = "/proc/self/net/tcp6";

// As the kernel writes addresses: the words as they lie in memory, as numbers of this machine.
std::string in_table(std::uint32_t v4, std::uint16_t port) {
  return fmt::format("{:08X}:{:04X}", htonl(v4), port);
}
std::string in_table(const std::array<std::uint32_t, 4>& v6, std::uint16_t port) {
  return fmt::format("{:08X}{:08X}{:08X}{:08X}:{:04X}", htonl(v6[0]), htonl(v6[1]), htonl(v6[2]),
                     htonl(v6[3]), port);
}

struct TableRow {
  std::string local;
  std::string remote;
  std::string state;
  PortSocket socket;
};

constexpr std::string_view kListens = "0A";

std::optional<TableRow> next_row(std::istream& table) {
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string ignored;
    TableRow row;
    // tx_queue:rx_queue, tr:tm->when, retrnsmt, uid, timeout, inode
    words >> ignored >> row.local >> row.remote >> row.state >> ignored >> ignored >> ignored >>
        row.socket.uid >> ignored >> row.socket.inode;
    if (words) return row;
  }
  return std::nullopt;
}

// The one of the addresses that stands first.
std::optional<PortSocket> find_local(std::istream& table,
                                     const std::vector<std::string>& addresses) {
  std::size_t best = addresses.size();
  std::optional<PortSocket> found;
  std::string headings;
  std::getline(table, headings);
  while (best > 0) {
    const auto row = next_row(table);
    // There may be very many connections behind those that listen.
    if (!row || row->state != kListens) break;
    const auto at =
        static_cast<std::size_t>(std::ranges::find(addresses, row->local) - addresses.begin());
    if (at >= best) continue;
    best = at;
    found = row->socket;
  }
  return found;
}

constexpr std::uint32_t kMapped = 0xFFFF;  // an address of IPv4 in one of IPv6

// A row or two at a time: the kernel goes through all of its tables for what nobody reads.
constexpr std::size_t kPiece = 256;

class Table {
 public:
  explicit Table(const char* path) {
    stream_.rdbuf()->pubsetbuf(piece_.data(), piece_.size());
    stream_.open(path);
  }
  std::ifstream& stream() { return stream_; }

 private:
  std::array<char, kPiece> piece_{};
  std::ifstream stream_;
};

}  // namespace

std::optional<PortSocket> find_listener(std::istream& tcp, std::istream& tcp6, Loopback loopback,
                                        std::uint16_t port) {
  const std::string every6 = in_table({0, 0, 0, 0}, port);
  if (loopback == Loopback::kV6) return find_local(tcp6, {in_table({0, 0, 0, 1}, port), every6});
  // The closest address first, as the kernel chooses. Nobody can take one beside which another
  // user gets the same connections: where one of IPv4 is there, those of IPv6 get none of them.
  const auto found = find_local(tcp, {in_table(INADDR_LOOPBACK, port), in_table(INADDR_ANY, port)});
  if (found) return found;
  return find_local(tcp6, {in_table({0, 0, kMapped, INADDR_LOOPBACK}, port),
                           in_table({0, 0, kMapped, INADDR_ANY}, port), every6});
}

std::optional<PortSocket> find_connected(std::istream& tcp, std::istream& tcp6, Loopback loopback,
                                         std::uint16_t port, std::uint16_t from) {
  const auto look = [&](std::istream& table, const auto& address) -> std::optional<PortSocket> {
    const std::string local = in_table(address, port);
    const std::string remote = in_table(address, from);
    std::string headings;
    std::getline(table, headings);
    while (const auto row = next_row(table)) {
      if (row->local == local && row->remote == remote) return row->socket;
    }
    return std::nullopt;
  };
  using V6 = std::array<std::uint32_t, 4>;
  if (loopback == Loopback::kV6) return look(tcp6, V6{0, 0, 0, 1});
  const auto found = look(tcp, std::uint32_t{INADDR_LOOPBACK});
  return found ? found : look(tcp6, V6{0, 0, kMapped, INADDR_LOOPBACK});
}

Result<std::optional<PortSocket>> listener_at(Loopback loopback, std::uint16_t port) {
  Table tcp(kTcpTable);
  if (!tcp.stream()) return err(ErrorCode::kIo, "{}: {}", kTcpTable, std::strerror(errno));
  // There is none where the kernel has no IPv6.
  Table tcp6(kTcp6Table);
  return find_listener(tcp.stream(), tcp6.stream(), loopback, port);
}

Result<std::optional<PortSocket>> connected_at(Loopback loopback, std::uint16_t port,
                                               std::uint16_t from) {
  Table tcp(kTcpTable);
  if (!tcp.stream()) return err(ErrorCode::kIo, "{}: {}", kTcpTable, std::strerror(errno));
  Table tcp6(kTcp6Table);
  return find_connected(tcp.stream(), tcp6.stream(), loopback, port, from);
}

}  // namespace divvy::sys
