// A relay on a thread of the test, with the test as the daemon that comes and goes.
#include "agent/relay.h"

#include <fcntl.h>
#include <sys/un.h>

#include <atomic>
#include <random>
#include <thread>

#include "agent/agent_socket.h"
#include "agent/relay_testing.h"
#include "base/temporary_folder.h"
#include "run/shepherd_socket.h"

namespace divvy::agent {
namespace {

using Kind = StreamOrder::Kind;

class RelayTest : public ::testing::Test {
 protected:
  void begin(Relay::Options options = {
                 .folder = {}, .port_on_machine = {}, .idle = std::chrono::hours(1)}) {
    folder_fd_ = UniqueFd(::open(folder_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    auto listener = run::listen_in(folder_fd_.get(), kRelaySocket, SOCK_STREAM, ::geteuid());
    ASSERT_TRUE(listener) << listener.error().message;
    options.folder = folder_.path();
    options.folder_fd = folder_fd_.get();
    listener_ = UniqueFd(::fcntl(listener->get(), F_DUPFD_CLOEXEC, 0));
    relay_ =
        std::thread([options, fd = listener->release()] { Relay(UniqueFd(fd), options).run(); });
  }
  void TearDown() override {
    ::shutdown(listener_.get(), SHUT_RDWR);
    relay_.join();
  }

  [[nodiscard]] UniqueFd connect() const {
    auto socket = run::connect_in(folder_fd_.get(), kRelaySocket, SOCK_STREAM);
    EXPECT_TRUE(socket) << socket.error().message;
    return socket ? *std::move(socket) : UniqueFd();
  }
  struct Answered {
    UniqueFd socket;
    Status status;
  };
  [[nodiscard]] Answered ask(const StreamOrder& order) const {
    UniqueFd socket = connect();
    EXPECT_TRUE(send_now(socket.get(), order));
    const auto reply = receive_now(socket.get(), std::chrono::seconds(60));
    const auto* const answer = reply ? std::get_if<NumberedAnswer>(&*reply) : nullptr;
    if (answer == nullptr) return {std::move(socket), err(ErrorCode::kInternal, "no answer")};
    if (!answer->answer) return {std::move(socket), err(answer->answer.error())};
    return {std::move(socket), {}};
  }
  [[nodiscard]] Status open(const std::string& name, std::uint16_t port,
                            Duration keep = std::chrono::hours(1)) const {
    return ask({.kind = Kind::kPort, .key = {}, .port = port, .channel = name, .keep = keep})
        .status;
  }
  [[nodiscard]] Answered join(const std::string& name) const {
    return ask({.kind = Kind::kJoin, .key = {}, .channel = name});
  }
  // As a client does in the end.
  static void finish(ChannelClient& client) {
    client.channel().say_goodbye();
    while (client.is_carried()) client.step();
  }

  TemporaryFolder folder_;
  UniqueFd folder_fd_;
  UniqueFd listener_;
  // What the relay may ask for as long as it runs, which is longer than a test.
  std::atomic<Relay::Time> now_{Relay::Time()};
  std::thread relay_;
};

TEST_F(RelayTest, BytesOfAPortArriveOnceAndWholeHoweverOftenTheConnectionIsCut) {
  begin();
  PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  std::thread echo([&] {
    const UniqueFd caller = server.accept();
    char piece[30'000];
    for (ssize_t got = 0; (got = ::read(caller.get(), piece, sizeof piece)) > 0;) {
      ASSERT_EQ(::send(caller.get(), piece, static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
    }
  });
  std::mt19937 random(7);
  std::string sent;
  while (sent.size() < 9'000'000) sent += std::to_string(random());
  std::string got;
  ChannelClient client;
  std::thread writer([&] {
    std::string_view left = sent;
    while (!left.empty()) {
      const ssize_t wrote = ::send(client.here(), left.data(), left.size(), MSG_NOSIGNAL);
      ASSERT_GT(wrote, 0);
      left.remove_prefix(static_cast<std::size_t>(wrote));
    }
    ::shutdown(client.here(), SHUT_WR);
  });
  int cuts = 0;
  std::size_t next_cut = 0;
  while (!client.channel().is_finished() && !HasFailure()) {
    if (!client.is_carried()) {
      Answered joined = join("one");
      ASSERT_TRUE(joined.status) << joined.status.error().message;
      client.carry(std::move(joined.socket));
    }
    client.step();
    client.read_into(got);
    if (got.size() >= next_cut) {
      client.cut();
      ++cuts;
      next_cut = got.size() + 400'000;
    }
  }
  writer.join();
  echo.join();
  client.read_into(got);
  EXPECT_FALSE(client.channel().failure());
  EXPECT_TRUE(got == sent) << got.size() << " of " << sent.size();
  EXPECT_GT(cuts, 3);
  if (!client.is_carried()) client.carry(join("one").socket);
  finish(client);
}

TEST_F(RelayTest, AChannelIsOpenedOnceHoweverOftenItIsAsked) {
  begin();
  const PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  EXPECT_TRUE(open("one", server.port())) << "the answer to the first may have been lost";
  const UniqueFd caller = server.accept();
  EXPECT_FALSE(server.has_caller());
  ChannelClient client;
  client.carry(join("one").socket);
  finish(client);
}

TEST_F(RelayTest, TheLastConnectionCarriesAndTheOneBeforeIsClosed) {
  begin();
  const PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  Answered first = join("one");
  ASSERT_TRUE(first.status);
  ChannelClient client;
  client.carry(join("one").socket);
  std::string said;
  char piece[64];
  for (ssize_t got = 0; (got = ::read(first.socket.get(), piece, sizeof piece)) > 0;) {
    said.append(piece, static_cast<std::size_t>(got));
  }
  EXPECT_LT(said.size(), 20U) << "no more than a greeting";
  finish(client);
}

TEST_F(RelayTest, WhoComesBackTooLateIsToldSo) {
  // The other one keeps the relay for as long as the test looks at it.
  begin();
  const PortServer server;
  ASSERT_TRUE(open("kept", server.port()));
  ChannelClient kept;
  kept.carry(join("kept").socket);
  const UniqueFd first = server.accept();
  ASSERT_TRUE(open("late", server.port(), std::chrono::milliseconds(1)));
  const UniqueFd second = server.accept();
  char byte = 0;
  EXPECT_LE(::read(second.get(), &byte, 1), 0) << "its end is the end of what it had opened";
  const Answered late = join("late");
  ASSERT_FALSE(late.status);
  EXPECT_EQ(late.status.error().code, ErrorCode::kNotFound);
  EXPECT_NE(late.status.error().message.find("nobody came back to this channel"), std::string::npos)
      << late.status.error().message;
  const Answered unknown = join("unknown");
  ASSERT_FALSE(unknown.status);
  EXPECT_EQ(unknown.status.error().code, ErrorCode::kNotFound);
  finish(kept);
}

TEST_F(RelayTest, TheTimeThatItWaitsBeginsWithTheLossAndNotWithTheLastByte) {
  begin({.folder = {}, .port_on_machine = {}, .idle = std::chrono::hours(1000), .now = [this] {
           return now_.load();
         }});
  const PortServer server;
  ASSERT_TRUE(open("one", server.port(), std::chrono::minutes(10)));
  ChannelClient client;
  client.carry(join("one").socket);
  const UniqueFd caller = server.accept();
  // So that the relay has seen the connection before the hours pass in which nobody says anything.
  ASSERT_EQ(::send(caller.get(), "x", 1, MSG_NOSIGNAL), 1);
  std::string got;
  while (got.empty() && !HasFailure()) {
    client.step();
    client.read_into(got);
  }
  now_ = Relay::Time(std::chrono::hours(5));
  client.cut();
  const Answered again = join("one");
  EXPECT_TRUE(again.status) << again.status.error().message;
}

TEST_F(RelayTest, ThePortOfTheMemberMayBeAnotherOneHere) {
  const PortServer server;
  begin({.folder = {},
         .port_on_machine = [&](std::uint16_t port) -> Result<std::uint16_t> {
           if (port == 80) return server.port();
           return err(ErrorCode::kFailedPrecondition, "it is not published");
         },
         .idle = std::chrono::hours(1)});
  EXPECT_TRUE(open("one", 80));
  EXPECT_TRUE(server.accept());
  const Status other = open("two", server.port());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "it is not published");
}

TEST_F(RelayTest, APortWhereNobodyListensIsRefused) {
  begin();
  PortServer server;
  const std::uint16_t port = server.port();
  server.stop();
  const Status nobody = open("one", port);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(nobody.error().message.find("nothing listens on port"), std::string::npos);
}

TEST_F(RelayTest, APortWhereAnotherUserListensIsRefused) {
  begin({.folder = {},
         .port_on_machine = {},
         .is_of_member = [](uid_t uid) { return uid != ::geteuid(); },
         .idle = std::chrono::hours(1)});
  const PortServer server;
  const Status foreign = open("one", server.port());
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(foreign.error().message.find("is not the job's"), std::string::npos)
      << foreign.error().message;
  EXPECT_FALSE(server.has_caller());
}

// The member's server ends while a connection waits in its line, and somebody else takes the port.
TEST_F(RelayTest, NothingIsSaidToAnotherUserWhoTookThePortMeanwhile) {
  std::atomic<bool> is_ours = true;
  begin({.folder = {},
         .port_on_machine = {},
         .is_of_member = [&](uid_t) { return is_ours.load(); },
         .idle = std::chrono::hours(1)});
  PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  const UniqueFd other = server.accept();
  server.stop();
  is_ours = false;
  ChannelClient client;
  client.carry(join("one").socket);
  ASSERT_EQ(::send(client.here(), "secret", 6, MSG_NOSIGNAL), 6);
  while (!client.channel().failure() && client.is_carried() && !HasFailure()) client.step();
  EXPECT_EQ(client.channel().failure(), "nobody of this job listens there any more");
  char byte = 0;
  EXPECT_LE(::read(other.get(), &byte, 1), 0) << "it was told something";
  finish(client);
}

TEST_F(RelayTest, AServerMayTakeOneConnectionAndListenNoMore) {
  begin();
  PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  const UniqueFd caller = server.accept();
  server.stop();
  ChannelClient client;
  client.carry(join("one").socket);
  ASSERT_EQ(::send(client.here(), "x", 1, MSG_NOSIGNAL), 1);
  std::thread answer([&] {
    char byte = 0;
    EXPECT_EQ(::read(caller.get(), &byte, 1), 1);
    EXPECT_EQ(::send(caller.get(), &byte, 1, MSG_NOSIGNAL), 1);
  });
  std::string got;
  while (got.empty() && !client.channel().failure() && !HasFailure()) {
    client.step();
    client.read_into(got);
  }
  EXPECT_EQ(got, "x") << client.channel().failure().value_or("");
  finish(client);
  answer.join();
}

TEST_F(RelayTest, RefusesMoreChannelsThanItMayHave) {
  begin({.folder = {}, .port_on_machine = {}, .idle = std::chrono::hours(1), .most = 1});
  const PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  const Status more = open("two", server.port());
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  ChannelClient client;
  client.carry(join("one").socket);
  finish(client);
}

TEST_F(RelayTest, WhatIsNoOrderAndWhatIsNoChannelHarmsNobodyElse) {
  begin();
  const PortServer server;
  ASSERT_TRUE(open("good", server.port()));
  ASSERT_TRUE(open("bad", server.port()));
  ChannelClient good;
  good.carry(join("good").socket);
  const UniqueFd caller = server.accept();

  const UniqueFd stranger = connect();
  ASSERT_EQ(::send(stranger.get(), "\4\0\0\0oops", 8, MSG_NOSIGNAL), 8);
  char byte = 0;
  EXPECT_LE(::read(stranger.get(), &byte, 1), 0);

  Answered bad = join("bad");
  ASSERT_EQ(::send(bad.socket.get(), "no message of a channel at all", 30, MSG_NOSIGNAL), 30);
  const UniqueFd other = server.accept();
  EXPECT_LE(::read(other.get(), &byte, 1), 0) << "it is the end of that one";
  ChannelClient told;
  told.carry(join("bad").socket);
  while (!told.channel().failure() && told.is_carried()) told.step();
  EXPECT_TRUE(told.channel().failure()) << "who has it is told why";
  finish(told);

  ASSERT_EQ(::send(caller.get(), "fine", 4, MSG_NOSIGNAL), 4);
  std::string got;
  while (got.size() < 4 && !HasFailure()) {
    good.step();
    good.read_into(got);
  }
  EXPECT_EQ(got, "fine");
  finish(good);
}

TEST_F(RelayTest, EndsWhenItHasHadNoChannelForAWhile) {
  begin({.folder = {}, .port_on_machine = {}, .idle = std::chrono::milliseconds(1)});
  listener_.reset();
  relay_.join();
  relay_ = std::thread([] {});
  const auto nobody = run::connect_in(folder_fd_.get(), kRelaySocket, SOCK_STREAM);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kUnavailable);
}

// Its client was killed and said no goodbye, and the folder of the member was removed.
TEST_F(RelayTest, EndsWhenTheFolderOfItsMemberIsRemoved) {
  begin({.folder = {}, .look = std::chrono::milliseconds(1), .port_on_machine = {}});
  const PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  const UniqueFd caller = server.accept();
  std::filesystem::remove_all(folder_.path());
  char byte = 0;
  EXPECT_EQ(::read(caller.get(), &byte, 1), 0) << "it has hung up";
}

TEST_F(RelayTest, TheEndOfEachDirectionIsPassedOnByItself) {
  begin();
  const PortServer server;
  ASSERT_TRUE(open("one", server.port()));
  ChannelClient client;
  client.carry(join("one").socket);
  const UniqueFd caller = server.accept();
  ::shutdown(client.here(), SHUT_WR);
  std::thread answer([&] {
    char byte = 0;
    EXPECT_EQ(::read(caller.get(), &byte, 1), 0) << "the client has said everything";
    EXPECT_EQ(::send(caller.get(), "still here", 10, MSG_NOSIGNAL), 10);
    ::shutdown(caller.get(), SHUT_WR);
  });
  std::string got;
  while (!client.channel().is_finished() && !HasFailure()) {
    client.step();
    client.read_into(got);
  }
  client.read_into(got);
  answer.join();
  EXPECT_EQ(got, "still here");
  finish(client);
}

}  // namespace
}  // namespace divvy::agent
