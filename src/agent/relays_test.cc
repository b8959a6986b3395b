// Relays as processes of their own, into real members.
#include "agent/relays.h"

#include <signal.h>
#include <sys/syscall.h>

#include <fstream>
#include <thread>

#include "agent/relay_testing.h"
#include "run/testing.h"
#include "sys/frames.h"

namespace divvy::agent {
namespace {

using Kind = StreamOrder::Kind;

class RelaysTest : public run::RuntimeTest {
 protected:
  void TearDown() override {
    // Those of tests that failed keep their channels.
    for (const pid_t pid : relays()) ::kill(pid, SIGKILL);
    RuntimeTest::TearDown();
  }
  // Another daemon after the first, as far as relays can tell.
  std::unique_ptr<Relays> new_relays() {
    return std::make_unique<Relays>(
        [this](const model::MemberKey& member) { return runtime_->folder_of(member); },
        std::vector<std::string>{RELAY_PROGRAM});
  }
  StreamOrder to_port(const std::string& name, std::uint16_t port) const {
    return {.kind = Kind::kPort,
            .key = key(1),
            .port = port,
            .channel = name,
            .keep = std::chrono::hours(1)};
  }
  StreamOrder joining(const std::string& name) const {
    return {.kind = Kind::kJoin, .key = key(1), .channel = name};
  }
  // Of members of this test.
  std::vector<pid_t> relays() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream file(entry.path() / "cmdline");
      const std::string words{std::istreambuf_iterator<char>(file), {}};
      const bool ours = words.find(folder_.path().string()) != std::string::npos;
      if (ours && words.starts_with(RELAY_PROGRAM)) found.push_back(std::stoi(name));
    }
    return found;
  }
  static void await_end_of(pid_t pid) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    pollfd wait{process.get(), POLLIN, 0};
    if (!process) return;  // it has
    EXPECT_EQ(::poll(&wait, 1, kTestPatienceMs), 1) << "it does not end";
  }
  static std::string echo_through(ChannelClient& client, int caller, const std::string& text) {
    EXPECT_EQ(::send(client.here(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    std::thread echo([&] {
      std::string piece(text.size(), '\0');
      EXPECT_EQ(::recv(caller, piece.data(), piece.size(), MSG_WAITALL),
                static_cast<ssize_t>(piece.size()));
      EXPECT_EQ(::send(caller, piece.data(), piece.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(piece.size()));
    });
    std::string got;
    while (got.size() < text.size() && client.is_carried() && !HasFailure()) {
      client.step();
      client.read_into(got);
    }
    echo.join();
    return got;
  }
};

TEST_F(RelaysTest, AChannelGoesOnWithTheNextDaemon) {
  start(plain(1, {"sleep", "600"}));
  const PortServer server;
  auto relays = new_relays();
  const auto opened = relays->open(to_port("one", server.port()));
  ASSERT_TRUE(opened) << opened.error().message;
  const UniqueFd caller = server.accept();
  ChannelClient client;
  auto joined = relays->open(joining("one"));
  ASSERT_TRUE(joined) << joined.error().message;
  client.carry(*std::move(joined));
  EXPECT_EQ(echo_through(client, caller.get(), "before"), "before");
  client.cut();
  relays = new_relays();
  joined = relays->open(joining("one"));
  ASSERT_TRUE(joined) << joined.error().message;
  client.carry(*std::move(joined));
  EXPECT_EQ(echo_through(client, caller.get(), "behind"), "behind");
  EXPECT_EQ(this->relays().size(), 1U);
}

TEST_F(RelaysTest, CommandsRunBesideTheMemberAndTheirOutputWaits) {
  start(plain(1, {"sleep", "600"}));
  auto relays = new_relays();
  const auto opened =
      relays->open({.kind = Kind::kExec,
                    .key = key(1),
                    .command = {"/bin/sh", "-c", "read word; echo $word heard; exit 7"},
                    .channel = "one",
                    .keep = std::chrono::hours(1)});
  ASSERT_TRUE(opened) << opened.error().message;
  relays = new_relays();
  auto joined = relays->open(joining("one"));
  ASSERT_TRUE(joined) << joined.error().message;
  ChannelClient client;
  client.carry(*std::move(joined));
  const std::string input = sys::to_bytes(sys::InputFrame{"hello\n"});
  ASSERT_EQ(::send(client.here(), input.data(), input.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(input.size()));
  sys::FrameReader frames;
  std::string bytes;
  std::string output;
  std::optional<sys::EndFrame> end;
  while (!end && client.is_carried() && !HasFailure()) {
    client.step();
    client.read_into(bytes);
    frames.add(std::exchange(bytes, {}));
    for (auto frame = frames.next(); frame && *frame; frame = frames.next()) {
      if (const auto* const text = std::get_if<sys::OutputFrame>(&**frame)) output += text->bytes;
      if (const auto* const last = std::get_if<sys::EndFrame>(&**frame)) end = *last;
    }
  }
  EXPECT_EQ(output, "hello heard\n");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 7);
}

TEST_F(RelaysTest, ManyAtOnceStartOne) {
  start(plain(1, {"sleep", "600"}));
  const PortServer server;
  const auto relays = new_relays();
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      const auto opened = relays->open(to_port("name" + std::to_string(i), server.port()));
      EXPECT_TRUE(opened) << opened.error().message;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(this->relays().size(), 1U);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(server.accept());
}

TEST_F(RelaysTest, OneThatWasKilledIsReplacedAndItsChannelsAreGone) {
  start(plain(1, {"sleep", "600"}));
  const PortServer server;
  const auto relays = new_relays();
  ASSERT_TRUE(relays->open(to_port("one", server.port())));
  const UniqueFd caller = server.accept();
  ASSERT_EQ(this->relays().size(), 1U);
  const pid_t pid = this->relays().front();
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  char byte = 0;
  EXPECT_LE(::read(caller.get(), &byte, 1), 0);
  await_end_of(pid);
  const auto joined = relays->open(joining("one"));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(this->relays().empty()) << "nothing is started to be joined";
  EXPECT_TRUE(relays->open(to_port("two", server.port())));
}

TEST_F(RelaysTest, OneThatIsStoppedHoldsNobodyUpWhoDidNotAskForIt) {
  start(plain(1, {"sleep", "600"}));
  start(plain(2, {"sleep", "600"}));
  const PortServer server;
  const auto relays = new_relays();
  ASSERT_TRUE(relays->open(to_port("one", server.port())));
  ASSERT_EQ(this->relays().size(), 1U);
  const pid_t pid = this->relays().front();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  std::thread waits([&] {
    const auto refused = relays->open(to_port("two", server.port()));
    EXPECT_TRUE(refused || refused.error().code == ErrorCode::kTimeout);
  });
  StreamOrder other = to_port("three", server.port());
  other.key = key(2);
  EXPECT_TRUE(relays->open(other));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  waits.join();
}

TEST_F(RelaysTest, NoneIsStartedForAMemberThatDoesNotRun) {
  (void)run(plain(1, {"true"}));
  const PortServer server;
  const auto opened = new_relays()->open(to_port("one", server.port()));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kFailedPrecondition) << opened.error().message;
  EXPECT_TRUE(relays().empty());
}

}  // namespace
}  // namespace divvy::agent
