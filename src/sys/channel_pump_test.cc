#include "sys/channel_pump.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace divvy::sys {
namespace {

struct Pair {
  UniqueFd here;
  UniqueFd there;
};

Pair unix_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Pair tcp_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), any, size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), any, &size), 0);
  Pair pair{UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), UniqueFd()};
  EXPECT_EQ(::connect(pair.here.get(), any, size), 0);
  pair.there = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return pair;
}

void say(const UniqueFd& fd, std::string_view text) {
  EXPECT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

// Until the pump has nothing more to read from its local socket.
void read_all(ChannelPump& pump) {
  while (!pump.channel().has_ended() && !pump.channel().failure()) {
    ChannelPump::Waits waits = pump.waits();
    ASSERT_EQ(::poll(&waits.local, 1, 60'000), 1);
    pump.step(waits);
  }
}

TEST(ChannelPump, ACloseThatLeavesSomethingUnreadIsAnEndBehindAllThatWasSaid) {
  Pair local = unix_pair();
  say(local.here, "what nobody reads");
  say(local.there, "said before");
  local.there.reset();
  ChannelPump pump(std::move(local.here), {});
  read_all(pump);
  EXPECT_EQ(pump.channel().failure(), std::nullopt);
  EXPECT_TRUE(pump.channel().has_ended());
}

TEST(ChannelPump, AConnectionThatIsResetIsAFailureWithItsReason) {
  Pair local = tcp_pair();
  const linger at_once{1, 0};
  ASSERT_EQ(::setsockopt(local.there.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  local.there.reset();
  ChannelPump pump(std::move(local.here), {});
  read_all(pump);
  EXPECT_EQ(pump.channel().failure(), "the connection was broken: Connection reset by peer");
}

TEST(ChannelPump, HearsNothingWhereItMayNotBegin) {
  Pair local = tcp_pair();
  say(local.there, "from somebody else");
  int asked = 0;
  ChannelPump pump(std::move(local.here), {.may_begin = [&] {
                     ++asked;
                     return false;
                   }});
  read_all(pump);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(pump.channel().failure(), "nobody of this job listens there any more");
}

TEST(ChannelPump, IsAskedOnceWhetherItMayBegin) {
  Pair local = tcp_pair();
  say(local.there, "one");
  int asked = 0;
  ChannelPump pump(std::move(local.here), {.may_begin = [&] {
                     ++asked;
                     return true;
                   }});
  ChannelPump::Waits waits = pump.waits();
  ASSERT_EQ(::poll(&waits.local, 1, 60'000), 1);
  pump.step(waits);
  local.there.reset();
  read_all(pump);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(pump.channel().failure(), std::nullopt);
}

}  // namespace
}  // namespace divvy::sys
