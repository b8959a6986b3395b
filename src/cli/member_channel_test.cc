// The client's end of a channel against a daemon whose relay is played by the test.
#include "cli/member_channel.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "cli/fake_daemon.h"
#include "cli/played_relay.h"
#include "cli/port_forward.h"

namespace divvy::cli {
namespace {

using std::chrono::milliseconds;

const std::string kName = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

class MemberChannels : public ::testing::Test {
 protected:
  [[nodiscard]] Daemon client() const {
    return Daemon({.socket = daemon_.socket(), .program = {}, .may_start = false});
  }
  void play(PlayedRelay& relay) {
    daemon_.on("GET /v1/jobs/17/channels",
               [&relay](const net::HttpRequest&) { return relay.join(); });
  }
  // Of carry_channel(), while `work` has the other end of its local socket.
  template <typename Work>
  Status carry(milliseconds patience, const Work& work) {
    const Daemon daemon = client();
    SocketPair pair = make_socket_pair();
    Status result;
    std::thread carrier([&, local = std::move(pair.there)]() mutable {
      result = carry_channel({.daemon = daemon,
                              .place = {.job = 17, .rank = 2},
                              .name = kName,
                              .stop = stop_.get(),
                              .patience = patience},
                             std::move(local));
    });
    work(pair.here.get());
    carrier.join();
    return result;
  }
  void stop() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

  FakeDaemon daemon_;
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST_F(MemberChannels, EverythingArrivesOnceOverConnectionsThatAreCut) {
  PlayedRelay relay(7);
  play(relay);
  std::thread echo([&] {
    char piece[20'000];
    for (ssize_t got = 0; (got = ::read(relay.member(), piece, sizeof piece)) > 0;) {
      ASSERT_EQ(::send(relay.member(), piece, static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
    }
    ::shutdown(relay.member(), SHUT_WR);
  });
  std::string sent;
  for (int i = 0; sent.size() < 5'000'000; ++i) sent += std::to_string(i * 31) + " ";
  std::string got;
  const Status carried = carry(std::chrono::minutes(10), [&](int here) {
    std::thread writer([&] {
      std::string_view left = sent;
      while (!left.empty()) {
        const ssize_t wrote = ::send(here, left.data(), left.size(), MSG_NOSIGNAL);
        ASSERT_GT(wrote, 0);
        left.remove_prefix(static_cast<std::size_t>(wrote));
      }
      ::shutdown(here, SHUT_WR);
    });
    char piece[65536];
    for (ssize_t now = 0; (now = ::read(here, piece, sizeof piece)) > 0;) {
      got.append(piece, static_cast<std::size_t>(now));
    }
    writer.join();
  });
  echo.join();
  EXPECT_TRUE(carried) << carried.error().message;
  EXPECT_TRUE(got == sent) << got.size() << " of " << sent.size();
  EXPECT_GE(relay.joins(), 3);
  EXPECT_EQ(daemon_.last_asked(), "GET /v1/jobs/17/channels?channel=" + kName + "&rank=2");
}

TEST_F(MemberChannels, ARefusalToGoOnIsTheEndAndSaysWhy) {
  daemon_.on("GET /v1/jobs/17/channels", R"({"detail":"nobody came back to this channel"})", 404);
  const Status carried = carry(std::chrono::minutes(10), [](int here) {
    char byte = 0;
    EXPECT_LE(::read(here, &byte, 1), 0);
  });
  ASSERT_FALSE(carried);
  EXPECT_NE(carried.error().message.find("the connection to the job is lost"), std::string::npos);
  EXPECT_NE(carried.error().message.find("nobody came back"), std::string::npos)
      << carried.error().message;
}

TEST_F(MemberChannels, WithoutAWayForLongerThanItIsKeptItIsGivenUp) {
  daemon_.on("GET /v1/jobs/17/channels", R"({"detail":"starting"})", 503);
  const Status carried = carry(milliseconds(1), [](int here) {
    char byte = 0;
    EXPECT_LE(::read(here, &byte, 1), 0);
  });
  ASSERT_FALSE(carried);
  EXPECT_EQ(carried.error().code, ErrorCode::kTimeout);
  EXPECT_NE(carried.error().message.find("there was no way to it"), std::string::npos)
      << carried.error().message;
}

TEST_F(MemberChannels, WhoHasEnoughHangsUpAtTheOtherEnd) {
  PlayedRelay relay;
  play(relay);
  const Status carried = carry(std::chrono::minutes(10), [&](int here) {
    EXPECT_EQ(::send(relay.member(), "x", 1, MSG_NOSIGNAL), 1);
    char byte = 0;
    EXPECT_EQ(::read(here, &byte, 1), 1);
    stop();
    relay.wait_for_goodbye();
  });
  EXPECT_TRUE(carried);
}

TEST_F(MemberChannels, AReplyThatIsTemporaryMayBeAskedForAgain) {
  EXPECT_TRUE(may_work_later(Reply{503, ""}));
  EXPECT_TRUE(may_work_later(Reply{429, ""}));
  EXPECT_TRUE(may_work_later(err(ErrorCode::kUnavailable, "nobody is there")));
  EXPECT_FALSE(may_work_later(Reply{404, ""}));
  EXPECT_FALSE(may_work_later(Reply{403, ""}));
  EXPECT_FALSE(may_work_later(err(ErrorCode::kPermissionDenied, "somebody else listens there")));
}

TEST_F(MemberChannels, TheTimeThatOneIsKeptIsInTheAnswer) {
  EXPECT_EQ(time_kept({201, R"({"keep_seconds":90})"}), std::chrono::seconds(90));
  for (const char* const body : {"", "[]", "{}", R"({"keep_seconds":"x"})", R"({"keep_seconds":0})",
                                 R"({"keep_seconds":-5})"}) {
    EXPECT_EQ(time_kept({201, body}), std::chrono::minutes(10)) << body;
  }
  EXPECT_EQ(time_kept({201, R"({"keep_seconds":9223372036854775807})"}), std::chrono::hours(24));
}

TEST_F(MemberChannels, NamesOfChannelsAreNeverTheSame) {
  EXPECT_EQ(new_channel_name().size(), 64U);
  EXPECT_NE(new_channel_name(), new_channel_name());
}

// --- The ports of port-forward ---

TEST(ForwardedPorts, AreOneOrTwoNumbers) {
  EXPECT_EQ(parse_forwarded_port("8888"), (ForwardedPort{8888, 8888}));
  EXPECT_EQ(parse_forwarded_port("9999:8888"), (ForwardedPort{9999, 8888}));
  EXPECT_EQ(parse_forwarded_port(":8888"), (ForwardedPort{0, 8888}));
  for (const char* const text :
       {"", ":", "0", "65536", "-1", "x", "1:", "1:0", "0:1", "1:2:3", " 1", "1 "}) {
    EXPECT_FALSE(parse_forwarded_port(text)) << text;
  }
}

}  // namespace
}  // namespace divvy::cli
