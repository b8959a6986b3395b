// What the real shepherd does on request: other commands beside a member's, watching it, and
// copying.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "run/shepherd_client.h"
#include "run/shepherd_socket.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  UniqueFd reader;
  UniqueFd writer;
};

// Until the other side is closed. A terminal says so with an error.
std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

class ShepherdRequests : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    member_ = shell(1, "echo ready; while read line; do echo got $line; done; exec sleep 1000");
    member_.environment["COLOUR"] = "green";
    member_.working_directory = "/usr";
    member_.keep_input = true;
  }
  void begin() {
    start(member_);
    await_line(key(1), "ready");
  }
  MemberFolder folder() const { return *MemberFolder::open(runtime_->folder_of(key(1))); }
  ShepherdClient visit() const { return *ShepherdClient::begin(folder()); }

  struct Done {
    ShepherdAnswer end;
    std::string output;
    std::string error;
  };
  Done exec(const ExecRequest& request, const std::string& input = {}) {
    Pipe in;
    Pipe out;
    Pipe error;
    ShepherdClient client = visit();
    const Status started =
        client.exec(request, {in.reader.get(), out.writer.get(), error.writer.get()});
    EXPECT_TRUE(started) << started.error().message;
    EXPECT_EQ(::write(in.writer.get(), input.data(), input.size()),
              static_cast<ssize_t>(input.size()));
    in.writer.reset();
    out.writer.reset();
    error.writer.reset();
    Done done;
    done.output = read_to_end(out.reader.get());
    done.error = read_to_end(error.reader.get());
    const auto end = client.ended(kTestPatience);
    EXPECT_TRUE(end && *end);
    if (end && *end) done.end = **end;
    return done;
  }

  // Connections that ask for nothing.
  std::vector<UniqueFd> take_places(int count) const {
    std::vector<UniqueFd> places;
    for (int i = 0; i < count; ++i) {
      auto place = connect_to_shepherd(folder().fd());
      if (place) places.push_back(*std::move(place));
    }
    return places;
  }

  MemberStart member_;
};

TEST_F(ShepherdRequests, RunsACommandBesideTheMembersWithTheCallersStreams) {
  begin();
  const Done done = exec({{"/bin/sh", "-c", "cat; echo $COLOUR $SHAPE; pwd; echo no >&2; exit 6"},
                          {{"SHAPE", "round"}},
                          "",
                          {}},
                         "typed\n");
  EXPECT_EQ(done.output, "typed\ngreen round\n/usr\n");
  EXPECT_EQ(done.error, "no\n");
  EXPECT_EQ(done.end.exit_code, 6);
}

TEST_F(ShepherdRequests, SaysWhyACommandCannotBeRun) {
  begin();
  Pipe pipe;
  const std::vector<int> streams = {pipe.reader.get(), pipe.writer.get(), pipe.writer.get()};
  ShepherdClient client = visit();
  EXPECT_EQ(client.exec({{"no-such-program"}, {}, "", {}}, streams).error().code,
            ErrorCode::kNotFound);
  EXPECT_FALSE(client.exec({{}, {}, "", {}}, streams));
  EXPECT_FALSE(visit().exec({{"true"}, {}, "", {}}, {})) << "without streams";
}

TEST_F(ShepherdRequests, GivesACommandATerminalOfTheRightSize) {
  begin();
  ShepherdClient client = visit();
  const auto terminal = client.exec_in_terminal(
      {{"/bin/sh", "-c", "stty size; tty >/dev/null && echo terminal; read x; stty size"},
       {},
       "",
       {}},
      {33, 111});
  ASSERT_TRUE(terminal) << terminal.error().message;
  std::string text;
  char buffer[4096];
  while (text.find("terminal") == std::string::npos) {
    const ssize_t got = ::read(terminal->get(), buffer, sizeof buffer);
    ASSERT_GT(got, 0);
    text.append(buffer, static_cast<std::size_t>(got));
  }
  EXPECT_NE(text.find("33 111"), std::string::npos) << text;
  winsize window{};
  window.ws_row = 44;
  window.ws_col = 55;
  ASSERT_EQ(::ioctl(terminal->get(), TIOCSWINSZ, &window), 0);
  ASSERT_EQ(::write(terminal->get(), "x\n", 2), 2);
  EXPECT_NE(read_to_end(terminal->get()).find("44 55"), std::string::npos);
  EXPECT_EQ((*client.ended(kTestPatience))->exit_code, 0);
}

TEST_F(ShepherdRequests, PassesSignalsToTheCommandOfTheCaller) {
  begin();
  Pipe pipe;
  Pipe out;
  ShepherdClient client = visit();
  ASSERT_TRUE(client.exec(
      {{"/bin/sh", "-c", "trap 'exit 3' INT; echo ready; while :; do sleep 1; done"}, {}, "", {}},
      {pipe.reader.get(), out.writer.get(), out.writer.get()}));
  char buffer[16];
  ASSERT_GT(::read(out.reader.get(), buffer, sizeof buffer), 0);
  ASSERT_TRUE(client.signal(SIGINT));
  EXPECT_EQ((*client.ended(kTestPatience))->exit_code, 3);
}

TEST_F(ShepherdRequests, EndsCommandsWithTheMember) {
  begin();
  Pipe pipe;
  Pipe out;
  ShepherdClient client = visit();
  ASSERT_TRUE(client.exec({{"sleep", "1000"}, {}, "", {}},
                          {pipe.reader.get(), out.writer.get(), out.writer.get()}));
  EXPECT_EQ(processes_of(key(1)).size(), 2U);
  ASSERT_TRUE(runtime_->stop(key(1), seconds(0)));
  await_end(key(1));
  EXPECT_TRUE(processes_of(key(1)).empty());
  out.writer.reset();
  EXPECT_EQ(read_to_end(out.reader.get()), "");
}

TEST_F(ShepherdRequests, ShowsTheOutputFromNowOnAndTakesInput) {
  begin();
  ShepherdClient client = visit();
  auto attached = client.attach();
  ASSERT_TRUE(attached) << attached.error().message;
  ASSERT_TRUE(attached->input);
  ASSERT_EQ(::write(attached->input->get(), "one\ntwo\n", 8), 8);
  std::string text;
  while (text.size() < 16) {
    char c = 0;
    ASSERT_EQ(::read(attached->output.get(), &c, 1), 1);
    text += c;
  }
  EXPECT_EQ(text, "got one\ngot two\n");
  // The log has it too.
  await_line(key(1), "got two");
  ASSERT_TRUE(runtime_->stop(key(1), seconds(0)));
  EXPECT_EQ(read_to_end(attached->output.get()), "");
  const auto end = client.ended(kTestPatience);
  ASSERT_TRUE(end && *end);
  EXPECT_EQ((*end)->kind, ShepherdAnswer::Kind::kEnded);
}

TEST_F(ShepherdRequests, ClosesTheMembersInput) {
  member_.command = {"cat"};
  start(member_);
  ShepherdClient client = visit();
  auto attached = client.attach();
  ASSERT_TRUE(attached);
  ASSERT_TRUE(attached->input);
  ASSERT_EQ(::write(attached->input->get(), "all\n", 4), 4);
  ASSERT_TRUE(client.close_input());
  attached->input.reset();
  EXPECT_TRUE(await_end(key(1)).end->succeeded());
  EXPECT_EQ(output(key(1)), "all\n");
}

// The last word may be there before anybody asks for anything else.
TEST_F(ShepherdRequests, TellsTheEndAlsoToWhoeverClosesTheInputAfterIt) {
  member_.command = {"/bin/sh", "-c", "read go; exit 4"};
  start(member_);
  ShepherdClient client = visit();
  auto attached = client.attach();
  ASSERT_TRUE(attached);
  ASSERT_EQ(::write(attached->input->get(), "go\n", 3), 3);
  await_end(key(1));
  EXPECT_TRUE(client.close_input());
  const auto end = client.ended(kTestPatience);
  ASSERT_TRUE(end && *end);
  EXPECT_EQ((*end)->exit_code, 4);
}

TEST_F(ShepherdRequests, DetachesAReaderThatDoesNotRead) {
  member_.command = {"/bin/sh", "-c",
                     "read go; head -c 8000000 /dev/zero; echo; echo done; exec sleep 1000"};
  start(member_);
  ShepherdClient lazy = visit();
  auto attached = lazy.attach();
  ASSERT_TRUE(attached);
  ASSERT_EQ(::write(attached->input->get(), "go\n", 3), 3);
  // The member is not held up.
  await_line(key(1), "done");
  EXPECT_EQ(lazy.ended(kTestPatience).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(ShepherdRequests, CopiesOutAndIn) {
  const fs::path from = folder_.path() / "from";
  const fs::path to = folder_.path() / "to";
  fs::create_directories(from / "inner");
  fs::create_directories(to);
  std::ofstream(from / "inner/file") << "content";
  begin();
  Pipe pipe;
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ShepherdClient out = visit();
  ASSERT_TRUE(out.copy({from.string(), true}, {null.get(), pipe.writer.get(), null.get()}));
  ShepherdClient in = visit();
  ASSERT_TRUE(in.copy({to.string(), false}, {pipe.reader.get(), null.get(), null.get()}));
  pipe.writer.reset();
  EXPECT_EQ((*out.ended(kTestPatience))->exit_code, 0);
  EXPECT_EQ((*in.ended(kTestPatience))->exit_code, 0);
  std::ifstream file(to / "from/inner/file");
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "content");
}

TEST_F(ShepherdRequests, RefusesOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  member_.uid = 65534;
  member_.gid = 65534;
  begin();
  const auto may_enter = [this](uid_t user) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto path = runtime_->folder_of(key(1));
      if (::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(2);
      auto client = ShepherdClient::begin(path);
      ::_exit(client && client->attach() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  EXPECT_TRUE(may_enter(65534));
  EXPECT_FALSE(may_enter(65533));
  // Also where the rights of the file would let them: the kernel's word counts.
  fs::permissions(runtime_->folder_of(key(1)) / "door", fs::perms::all);
  EXPECT_FALSE(may_enter(65533));
}

TEST_F(ShepherdRequests, HangsUpOnCallersBeyondItsPlacesAndMembersAreStoppedAllTheSame) {
  begin();
  const std::vector<UniqueFd> places = take_places(64);
  const auto beyond = connect_to_shepherd(folder().fd());
  ASSERT_TRUE(beyond) << beyond.error().message;
  const sys::Packet said = receive_shepherd_packet(beyond->get(), kTestPatience);
  ASSERT_EQ(said.outcome, sys::Packet::Outcome::kReceived) << "it stands in the line";
  EXPECT_EQ(parse_shepherd_answer(text_of(said))->kind, ShepherdAnswer::Kind::kRefused);
  EXPECT_TRUE(runtime_->stop(key(1), seconds(0)));
  EXPECT_EQ(await_end(key(1)).phase, MemberPhase::kEnded);
}

TEST_F(ShepherdRequests, HasPlacesForTheDaemonWhereTheUserHasTakenTheirs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  member_.uid = 65534;
  member_.gid = 65534;
  begin();
  const Pipe taken;
  const Pipe over;
  const auto path = runtime_->folder_of(key(1));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const UniqueFd entered(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::vector<UniqueFd> places;
    for (int i = 0; i < 200; ++i) {
      auto place = connect_to_shepherd(entered.get());
      if (place) places.push_back(*std::move(place));
    }
    char byte = 'x';
    (void)!::write(taken.writer.get(), &byte, 1);
    (void)!::read(over.reader.get(), &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(taken.reader.get(), &byte, 1), 1);
  const Status asked = ask_shepherd(folder(), StopRequest{seconds(0)}, kTestPatience);
  EXPECT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(await_end(key(1)).phase, MemberPhase::kEnded);
  (void)!::write(over.writer.get(), &byte, 1);
  ::waitpid(child, nullptr, 0);
}

TEST_F(ShepherdRequests, RefusesMalformedRequests) {
  begin();
  for (const std::string& text :
       {std::string("x"), std::string("{}"), std::string(60'000, '['), std::string("{\"exec\":{}}"),
        std::string("{\"stop\":{\"graceSeconds\":-1}}"), std::string("\0\0\0", 3)}) {
    auto socket = connect_to_shepherd(folder().fd());
    ASSERT_TRUE(socket);
    ASSERT_TRUE(send_shepherd_message(socket->get(), text));
    const sys::Packet packet = receive_shepherd_packet(socket->get(), kTestPatience);
    ASSERT_EQ(packet.outcome, sys::Packet::Outcome::kReceived);
    EXPECT_EQ(parse_shepherd_answer(text_of(packet))->kind, ShepherdAnswer::Kind::kRefused);
  }
  // There are places for others when some go.
  take_places(80).clear();
  EXPECT_EQ(runtime_->find(key(1))->phase, MemberPhase::kLiving);
  EXPECT_EQ(exec({{"true"}, {}, "", {}}).end.exit_code, 0);
}

}  // namespace
}  // namespace divvy::run
