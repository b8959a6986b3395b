// Streams into real members.
#include "agent/streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "run/testing.h"
#include "sys/frames.h"

namespace divvy::agent {
namespace {

using Kind = StreamOrder::Kind;

// The other side of a stream: what was said there, put together.
struct Client {
  explicit Client(UniqueFd fd) : socket(std::move(fd)) {}

  void send(const sys::Frame& frame) const {
    EXPECT_TRUE(sys::send_frames(socket.get(), sys::to_bytes(frame)));
  }
  // False: it has ended.
  bool read_one() {
    for (;;) {
      const auto frame = reader.next();
      EXPECT_TRUE(frame) << frame.error().message;
      if (!frame) return false;
      if (*frame) {
        take(**frame);
        return true;
      }
      pollfd wait{socket.get(), POLLIN, 0};
      if (::poll(&wait, 1, 60'000) != 1) {
        ADD_FAILURE() << "nothing comes";
        return false;
      }
      char piece[4096];
      const ssize_t got = ::read(socket.get(), piece, sizeof piece);
      if (got <= 0) return false;
      reader.add({piece, static_cast<std::size_t>(got)});
    }
  }
  void take(const sys::Frame& frame) {
    if (const auto* const bytes = std::get_if<sys::OutputFrame>(&frame)) out += bytes->bytes;
    if (const auto* const bytes = std::get_if<sys::ErrorFrame>(&frame)) error += bytes->bytes;
    if (const auto* const line = std::get_if<sys::LineFrame>(&frame)) lines += line->text + "\n";
    if (const auto* const one = std::get_if<sys::StartedFrame>(&frame)) started = *one;
    if (const auto* const one = std::get_if<sys::EndFrame>(&frame)) end = *one;
    if (const auto* const one = std::get_if<sys::RefusedFrame>(&frame)) refused = one->error;
    if (std::holds_alternative<sys::CaughtUpFrame>(frame)) ++caught_up;
  }
  void read_all() {
    while (read_one()) {
    }
  }
  void read_until_line(const std::string& text) {
    while (lines.find(text) == std::string::npos && read_one()) {
    }
  }

  UniqueFd socket;
  sys::FrameReader reader;
  std::string out;
  std::string error;
  std::string lines;
  int caught_up = 0;
  std::optional<sys::StartedFrame> started;
  std::optional<sys::EndFrame> end;
  std::optional<Error> refused;
};

class StreamsTest : public run::RuntimeTest {
 protected:
  Client open(const StreamOrder& order) {
    auto opened = streams_->open(order);
    EXPECT_TRUE(opened) << opened.error().message;
    return Client(opened ? *std::move(opened) : UniqueFd());
  }
  StreamOrder exec(const std::string& script) const {
    return {.kind = Kind::kExec, .key = key(1), .command = {"/bin/sh", "-c", script}};
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::string content(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  std::unique_ptr<Streams> streams_ = std::make_unique<Streams>(
      [this](const model::MemberKey& member) { return runtime_->folder_of(member); }, 4);
};

TEST_F(StreamsTest, ExecHasInputOutputErrorAndExitStatus) {
  start(plain(1, {"sleep", "600"}));
  StreamOrder order = exec("read word; echo $word-$NAME; echo oops >&2; exit 7");
  order.environment["NAME"] = "value";
  Client client = open(order);
  client.send(sys::InputFrame{"hello\nmore"});
  client.read_all();
  ASSERT_TRUE(client.started);
  EXPECT_TRUE(client.started->takes_input);
  EXPECT_EQ(client.out, "hello-value\n");
  EXPECT_EQ(client.error, "oops\n");
  ASSERT_TRUE(client.end);
  EXPECT_EQ(client.end->exit_code, 7);
}

TEST_F(StreamsTest, ExecOfNoSuchProgramIsRefusedInTheStream) {
  start(plain(1, {"sleep", "600"}));
  Client client = open({.kind = Kind::kExec, .key = key(1), .command = {"no-such-program"}});
  client.read_all();
  ASSERT_TRUE(client.refused);
  EXPECT_EQ(client.refused->code, ErrorCode::kNotFound);
}

TEST_F(StreamsTest, SignalsReachTheCommandAndAHangUpEndsIt) {
  start(plain(1, {"sleep", "600"}));
  Client client = open(exec("echo ready; exec sleep 600"));
  while (client.out.empty() && client.read_one()) {
  }
  client.send(sys::SignalFrame{SIGTERM});
  client.read_all();
  ASSERT_TRUE(client.end);
  EXPECT_EQ(client.end->signal, SIGTERM);

  const std::string gone = path("gone");
  ASSERT_EQ(::mkfifo(gone.c_str(), 0600), 0);
  const UniqueFd told(::open(gone.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  // The shell would tell that its child was hung up, to a pipe that nobody reads any more.
  Client other = open(exec("exec 2> /dev/null; trap 'echo > " + gone +
                           "; exit' HUP; echo; while :; do sleep 0.05; done"));
  while (other.out.empty() && other.read_one()) {
  }
  other.socket.reset();
  pollfd wait{told.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 60'000), 1) << "the command was not hung up";
}

TEST_F(StreamsTest, MoreThanFitsGoesThroughBothWaysAtOnce) {
  start(plain(1, {"sleep", "600"}));
  Client client = open(exec("cat"));
  std::string sent;
  for (int i = 0; i < 300'000; ++i) sent += std::to_string(i) + "\n";
  std::thread writer([&] {
    client.send(sys::InputFrame{sent});
    client.send(sys::InputEndFrame{});
  });
  client.read_all();
  writer.join();
  EXPECT_TRUE(client.out == sent);
  EXPECT_TRUE(client.end);
}

TEST_F(StreamsTest, ExecInATerminalHasItsSize) {
  start(plain(1, {"sleep", "600"}));
  StreamOrder order = exec("stty size; read x; stty size");
  order.terminal = true;
  order.rows = 33;
  order.columns = 101;
  Client client = open(order);
  while (client.out.find("33 101") == std::string::npos && client.read_one()) {
  }
  client.send(sys::WindowFrame{44, 55});
  client.send(sys::InputFrame{"\r"});
  client.read_all();
  EXPECT_NE(client.out.find("44 55"), std::string::npos) << client.out;
  EXPECT_TRUE(client.end);
}

TEST_F(StreamsTest, AttachShowsOutputAndTheEndAndPassesInputOn) {
  run::MemberStart member = shell(1, "while read line; do echo got $line; done; exit 3");
  member.keep_input = true;
  start(member);
  Client client = open({.kind = Kind::kAttach, .key = key(1)});
  client.send(sys::InputFrame{"one\n"});
  client.send(sys::InputEndFrame{});
  client.read_all();
  ASSERT_TRUE(client.started);
  EXPECT_TRUE(client.started->takes_input);
  EXPECT_EQ(client.out, "got one\n");
  ASSERT_TRUE(client.end);
  EXPECT_EQ(client.end->exit_code, 3);
}

TEST_F(StreamsTest, CopiesOutAndInAreTarStreams) {
  start(plain(1, {"sleep", "600"}));
  std::ofstream(path("a.txt")) << "text";
  Client out = open({.kind = Kind::kCopyOut, .key = key(1), .path = path("a.txt")});
  out.read_all();
  ASSERT_TRUE(out.end);
  EXPECT_EQ(out.end->exit_code, 0) << out.error;
  std::filesystem::create_directory(path("into"));
  Client in = open({.kind = Kind::kCopyIn, .key = key(1), .path = path("into")});
  in.send(sys::InputFrame{out.out});
  in.send(sys::InputEndFrame{});
  in.read_all();
  ASSERT_TRUE(in.end);
  EXPECT_EQ(in.end->exit_code, 0) << in.error;
  EXPECT_EQ(content(path("into/a.txt")), "text");
}

TEST_F(StreamsTest, OutputIsFollowedUntilTheReaderHasEnough) {
  const std::string go = path("go");
  start(shell(1, "echo one; echo two; while [ ! -e " + go +
                     " ]; do sleep 0.05; done; "
                     "echo three; printf four; sleep 600"));
  await_line(key(1), "two");
  Client tail = open({.kind = Kind::kOutput, .key = key(1), .tail = 1, .follow = false});
  tail.read_all();
  EXPECT_EQ(tail.lines, "two\n");
  EXPECT_TRUE(tail.end);
  Client client = open({.kind = Kind::kOutput, .key = key(1), .follow = true});
  while (client.caught_up == 0 && client.read_one()) {
  }
  EXPECT_EQ(client.lines, "one\ntwo\n");
  std::ofstream(go).flush();
  client.read_until_line("three");
  client.send(sys::InputEndFrame{});
  client.read_all();
  EXPECT_TRUE(client.end);
  EXPECT_EQ(client.lines.substr(0, 14), "one\ntwo\nthree\n");
}

TEST_F(StreamsTest, WhatIsNotThereIsRefusedBeforeAStreamBegins) {
  const auto output = streams_->open({.kind = Kind::kOutput, .key = key(9)});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kNotFound);
  run(shell(1, "true"));
  const auto ended = streams_->open(exec("true"));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(StreamsTest, StreamsAreLimitedAndEndWithTheAgent) {
  start(plain(1, {"sleep", "600"}));
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(open(exec("sleep 600")));
  const auto one_more = streams_->open(exec("true"));
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, ErrorCode::kResourceExhausted);
  streams_.reset();
  for (Client& client : clients) {
    client.read_all();
    EXPECT_FALSE(client.end);
  }
}

}  // namespace
}  // namespace divvy::agent
