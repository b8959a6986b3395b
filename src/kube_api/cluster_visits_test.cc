// Going into pods, against an API server in memory; what is in the pod is played by the test.
#include <poll.h>

#include <algorithm>
#include <thread>

#include "kube/pod_channels.h"
#include "kube_api/cluster_api_fixture.h"
#include "kube_api/pod_visit.h"
#include "sys/frames.h"

namespace divvy::kube_api {
namespace {

using kube::PodChannel;
using ::testing::HasSubstr;
namespace json = boost::json;

constexpr std::size_t kLongest = std::size_t{128} << 10;

class PlayedConnection final : public kube::PodConnection {
 public:
  PlayedConnection(UniqueFd fd, std::string protocol)
      : fd_(std::move(fd)), protocol_(std::move(protocol)) {}
  [[nodiscard]] int fd() const override { return fd_.get(); }
  [[nodiscard]] const std::string& protocol() const override { return protocol_; }

 private:
  const UniqueFd fd_;
  const std::string protocol_;
};

// The other end of it.
class PlayedPod {
 public:
  explicit PlayedPod(UniqueFd fd) : fd_(std::move(fd)) {}
  void say(PodChannel channel, std::string_view bytes) {
    const std::string message = kube::channel_message(channel, bytes);
    EXPECT_EQ(::send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message.size()));
  }
  void end(int status) {
    if (status == 0) return say(PodChannel::kStatus, R"({"status":"Success"})");
    say(PodChannel::kStatus,
        fmt::format(R"({{"status":"Failure","reason":"NonZeroExitCode","details":{{"causes":
            [{{"reason":"ExitCode","message":"{}"}}]}}}})",
                    status));
  }
  // The next message; empty: they have hung up.
  std::string hear() {
    std::string message(kLongest, '\0');
    const ssize_t got = ::recv(fd_.get(), message.data(), message.size(), 0);
    message.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return message;
  }
  // All of the input until it is closed.
  std::string input() {
    std::string all;
    for (;;) {
      const std::string message = hear();
      if (message.empty() || message == kube::close_message(PodChannel::kInput)) return all;
      if (message.front() == '\0') all += message.substr(1);
    }
  }
  void hang_up() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

class ClusterVisits : public testing::ClusterApiTest {
 protected:
  void TearDown() override { join(); }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void play(std::function<void(PlayedPod&)> part, std::string protocol = "v5.channel.k8s.io") {
    api_.set_connect(
        [this, part = std::move(part), protocol = std::move(protocol)](
            const std::string& path,
            const std::string& protocols) -> Result<std::unique_ptr<kube::PodConnection>> {
          path_ = path;
          protocols_ = protocols;
          int ends[2];
          EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
          threads_.emplace_back([part, fd = ends[1]] {
            PlayedPod pod{UniqueFd(fd)};
            part(pod);
          });
          return std::make_unique<PlayedConnection>(UniqueFd(ends[0]), protocol);
        });
  }
  // A socket into member 0 of the job, or the refusal.
  UniqueFd open(const std::string& job, const std::string& wish) {
    const std::string body = fmt::format(R"({{"channel":"{}",{}}})", std::string(64, 'a'), wish);
    const net::HttpResponse made =
        ask("POST", "/v1/jobs/" + id(job) + "/channels", body, {{"upgrade", "divvy-frames"}});
    UniqueFd socket;
    refused_ = made;
    if (!made.upgrade) return socket;
    refused_ = made.upgrade(socket);
    return socket;
  }
  static void tell(int fd, const sys::Frame& frame) {
    EXPECT_TRUE(sys::send_frames(fd, sys::to_bytes(frame)));
  }
  struct Heard {
    std::string output;
    std::string errors;
    std::optional<bool> takes_input;
    std::optional<sys::EndFrame> end;
    std::optional<Error> refused;
  };
  // Everything until the end.
  static Heard listen(int fd) {
    Heard heard;
    sys::FrameReader frames;
    for (;;) {
      auto frame = frames.next();
      EXPECT_TRUE(frame.has_value());
      if (!frame) return heard;
      if (!*frame) {
        char piece[4096];
        const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
        if (got <= 0) return heard;
        frames.add({piece, static_cast<std::size_t>(got)});
        continue;
      }
      if (auto* const one = std::get_if<sys::OutputFrame>(&**frame)) heard.output += one->bytes;
      if (auto* const one = std::get_if<sys::ErrorFrame>(&**frame)) heard.errors += one->bytes;
      if (auto* const one = std::get_if<sys::StartedFrame>(&**frame)) {
        heard.takes_input = one->takes_input;
      }
      if (auto* const one = std::get_if<sys::EndFrame>(&**frame)) heard.end = *one;
      if (auto* const one = std::get_if<sys::RefusedFrame>(&**frame)) heard.refused = one->error;
    }
  }

  std::string path_;
  std::string protocols_;
  net::HttpResponse refused_;
  std::vector<std::thread> threads_;
};

TEST_F(ClusterVisits, ACommandHasItsInputOutputAndExitStatus) {
  put_pod("train", "Running");
  play([](PlayedPod& pod) {
    pod.say(PodChannel::kOutput, "");
    pod.say(PodChannel::kOutput, "read: " + pod.input());
    pod.say(PodChannel::kErrors, "oh no");
    pod.end(3);
  });
  const UniqueFd socket = open("train", R"("kind":"exec","command":["sh","-c","cat"])");
  ASSERT_TRUE(socket) << refused_.body;
  tell(socket.get(), sys::InputFrame{"one "});
  tell(socket.get(), sys::InputFrame{"two"});
  tell(socket.get(), sys::InputEndFrame{});
  const Heard heard = listen(socket.get());
  EXPECT_EQ(heard.output, "read: one two");
  EXPECT_EQ(heard.errors, "oh no");
  EXPECT_EQ(heard.takes_input, true);
  ASSERT_TRUE(heard.end.has_value());
  EXPECT_EQ(heard.end->exit_code, 3);
  EXPECT_EQ(path_,
            "/api/v1/namespaces/team-a/pods/train/exec?container=main&stdout=true&stderr=true&"
            "stdin=true&tty=false&command=sh&command=-c&command=cat");
  EXPECT_EQ(protocols_, "v5.channel.k8s.io, v4.channel.k8s.io");
}

TEST_F(ClusterVisits, AFolderAndVariablesGoAroundTheCommand) {
  put_pod("train", "Running");
  play([](PlayedPod& pod) { pod.end(0); });
  const UniqueFd socket =
      open("train",
           R"("kind":"exec","command":["ls"],"environment":["A=b c","TERM=xterm"],"path":"/data")");
  ASSERT_TRUE(socket) << refused_.body;
  EXPECT_EQ(listen(socket.get()).end->exit_code, 0);
  EXPECT_THAT(path_, HasSubstr("&command=sh&command=-c&command=cd%20--%20%22%240%22%20%26%26%20exec"
                               "%20%22%24%40%22&command=%2Fdata&command=env&command=A%3Db%20c&"
                               "command=ls"));
}

TEST_F(ClusterVisits, ATerminalHasASizeAndTakesCtrlC) {
  put_pod("train", "Running");
  std::vector<std::string> heard_there;
  play([&heard_there](PlayedPod& pod) {
    for (int i = 0; i < 3; ++i) heard_there.push_back(pod.hear());
    pod.end(130);
  });
  const UniqueFd socket =
      open("train", R"("kind":"exec","command":["sh"],"terminal":true,"rows":50,"columns":132)");
  ASSERT_TRUE(socket) << refused_.body;
  tell(socket.get(), sys::WindowFrame{40, 100});
  tell(socket.get(), sys::SignalFrame{SIGINT});
  EXPECT_EQ(listen(socket.get()).end->exit_code, 130);
  join();
  EXPECT_EQ(heard_there,
            (std::vector<std::string>{kube::resize_message(50, 132), kube::resize_message(40, 100),
                                      std::string("\0\x03", 2)}));
  EXPECT_THAT(path_, HasSubstr("stderr=false&stdin=true&tty=true"));
}

TEST_F(ClusterVisits, WithoutATerminalASignalHangsUp) {
  put_pod("train", "Running");
  bool hung_up = false;
  play([&hung_up](PlayedPod& pod) { hung_up = pod.hear().empty(); });
  const UniqueFd socket = open("train", R"("kind":"exec","command":["sleep","9"])");
  ASSERT_TRUE(socket) << refused_.body;
  tell(socket.get(), sys::SignalFrame{SIGTERM});
  EXPECT_EQ(listen(socket.get()).end->signal, SIGTERM);
  join();
  EXPECT_TRUE(hung_up);
}

TEST_F(ClusterVisits, AServerOfTheOlderProtocolIsNotToldOfTheEndOfInput) {
  put_pod("train", "Running");
  std::string heard_there;
  play(
      [&heard_there](PlayedPod& pod) {
        heard_there = pod.hear();
        pod.end(0);
      },
      "v4.channel.k8s.io");
  const UniqueFd socket = open("train", R"("kind":"exec","command":["head"])");
  ASSERT_TRUE(socket) << refused_.body;
  tell(socket.get(), sys::InputEndFrame{});
  tell(socket.get(), sys::InputFrame{"x"});
  EXPECT_TRUE(listen(socket.get()).end.has_value());
  join();
  EXPECT_EQ(heard_there, std::string("\0x", 2));
}

TEST_F(ClusterVisits, WhatCannotBeStartedIsRefusedAsAShellDoes) {
  put_pod("train", "Running");
  play([](PlayedPod& pod) {
    pod.say(
        PodChannel::kStatus,
        R"({"status":"Failure","message":"exec: \"nope\": executable file not found in $PATH"})");
  });
  const UniqueFd socket = open("train", R"("kind":"exec","command":["nope"])");
  ASSERT_TRUE(socket) << refused_.body;
  const Heard heard = listen(socket.get());
  ASSERT_TRUE(heard.refused.has_value());
  EXPECT_EQ(heard.refused->code, ErrorCode::kNotFound);
}

TEST_F(ClusterVisits, AConnectionThatIsLostIsNoEnd) {
  put_pod("train", "Running");
  play([](PlayedPod& pod) { pod.say(PodChannel::kOutput, "half"); });
  const UniqueFd socket = open("train", R"("kind":"exec","command":["cat"])");
  ASSERT_TRUE(socket) << refused_.body;
  const Heard heard = listen(socket.get());
  EXPECT_EQ(heard.output, "half");
  EXPECT_FALSE(heard.end.has_value());
  ASSERT_TRUE(heard.refused.has_value());
  EXPECT_THAT(heard.refused->message, HasSubstr("the connection to the pod was lost"));
}

TEST_F(ClusterVisits, MuchGoesBothWaysWithoutEitherWaitingForTheOther) {
  put_pod("train", "Running");
  const std::string piece(32'000, 'x');
  constexpr int kPieces = 100;
  std::size_t came = 0;
  play([&](PlayedPod& pod) {
    // It reads nothing until it has written everything.
    for (int i = 0; i < kPieces; ++i) pod.say(PodChannel::kOutput, piece);
    came = pod.input().size();
    pod.end(0);
  });
  const UniqueFd socket = open("train", R"("kind":"exec","command":["cat"])");
  ASSERT_TRUE(socket) << refused_.body;
  std::thread writer([&] {
    for (int i = 0; i < kPieces; ++i) tell(socket.get(), sys::InputFrame{piece});
    tell(socket.get(), sys::InputEndFrame{});
  });
  const Heard heard = listen(socket.get());
  writer.join();
  join();
  EXPECT_EQ(heard.output.size(), piece.size() * kPieces);
  EXPECT_EQ(came, piece.size() * kPieces);
}

TEST_F(ClusterVisits, WhoeverHangsUpHangsUpThere) {
  put_pod("train", "Running");
  bool hung_up = false;
  play([&hung_up](PlayedPod& pod) { hung_up = pod.hear().empty(); });
  UniqueFd socket = open("train", R"("kind":"exec","command":["cat"])");
  ASSERT_TRUE(socket) << refused_.body;
  socket.reset();
  join();
  EXPECT_TRUE(hung_up);
}

TEST_F(ClusterVisits, AttachedIsWhoeverLooksUntilTheContainerEnds) {
  put_pod("train", "Running");
  play([this](PlayedPod& pod) {
    pod.say(PodChannel::kOutput, "loss 0.1\n");
    ClusterApiTest::tell("train", "Failed", 7);
    pod.end(0);
  });
  const UniqueFd socket = open("train", R"("kind":"attach")");
  ASSERT_TRUE(socket) << refused_.body;
  const Heard heard = listen(socket.get());
  EXPECT_EQ(heard.takes_input, false) << "its container has no stdin";
  EXPECT_EQ(heard.output, "loss 0.1\n");
  ASSERT_TRUE(heard.end.has_value());
  EXPECT_EQ(heard.end->exit_code, 7);
  EXPECT_THAT(path_, HasSubstr("/pods/train/attach?container=main"));
}

TEST_F(ClusterVisits, CopiesAreTarOnTheOtherSide) {
  put_pod("train", "Running");
  play([](PlayedPod& pod) {
    pod.say(
        PodChannel::kStatus,
        R"({"status":"Failure","message":"exec: \"tar\": executable file not found in $PATH"})");
  });
  UniqueFd socket = open("train", R"("kind":"copy-out","path":"/data/model/")");
  ASSERT_TRUE(socket) << refused_.body;
  EXPECT_EQ(listen(socket.get()).end->exit_code, 127) << "as where there is a shell";
  EXPECT_THAT(path_, HasSubstr("stdin=false&tty=false&command=tar&command=-c&command=-f&command=-&"
                               "command=-C&command=%2Fdata&command=--&command=model"));
  socket = open("train", R"("kind":"copy-in","path":"/data")");
  ASSERT_TRUE(socket) << refused_.body;
  EXPECT_THAT(path_, HasSubstr("command=tar&command=-x&command=-f&command=-&command=-C&"
                               "command=%2Fdata"));
  EXPECT_EQ(listen(socket.get()).end->exit_code, 127);
}

TEST_F(ClusterVisits, APortIsBytesBothWays) {
  put_pod("train", "Running");
  std::string asked;
  play([&asked](PlayedPod& pod) {
    // The number of the port, in pieces even.
    pod.say(PodChannel{0}, "\x90");
    pod.say(PodChannel{0}, "\x1f");
    pod.say(PodChannel{1}, "\x90\x1f");
    asked = pod.hear();
    pod.say(PodChannel{0}, "200 OK");
  });
  const UniqueFd socket = open("train", R"("kind":"port","port":8080)");
  ASSERT_TRUE(socket) << refused_.body;
  ASSERT_EQ(::send(socket.get(), "GET /", 5, MSG_NOSIGNAL), 5);
  std::string answer;
  char piece[64];
  for (ssize_t got = 0; (got = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;) {
    answer.append(piece, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(answer, "200 OK");
  join();
  EXPECT_EQ(asked, std::string("\0GET /", 6));
  EXPECT_EQ(path_, "/api/v1/namespaces/team-a/pods/train/portforward?ports=8080");
  EXPECT_EQ(protocols_, "v4.channel.k8s.io");
}

TEST_F(ClusterVisits, APortThatNobodyListensOnIsAnEnd) {
  put_pod("train", "Running");
  play([](PlayedPod& pod) {
    pod.say(PodChannel{0}, "\x90\x1f");
    pod.say(PodChannel{1}, "\x90\x1f");
    pod.say(PodChannel{1}, "connection refused");
    EXPECT_EQ(pod.hear(), "");
  });
  const UniqueFd socket = open("train", R"("kind":"port","port":8080)");
  ASSERT_TRUE(socket) << refused_.body;
  char byte = 0;
  EXPECT_EQ(::recv(socket.get(), &byte, 1, 0), 0);
}

TEST_F(ClusterVisits, WhatKubernetesRefusesIsRefused) {
  put_pod("train", "Running");
  api_.set_connect(
      [](const std::string&, const std::string&) -> Result<std::unique_ptr<kube::PodConnection>> {
        return err(ErrorCode::kPermissionDenied, "you may not create pods/exec");
      });
  EXPECT_FALSE(open("train", R"("kind":"exec","command":["ls"])"));
  EXPECT_EQ(refused_.status, 403);
  EXPECT_THAT(detail(refused_), HasSubstr("you may not create pods/exec"));
}

TEST_F(ClusterVisits, OnlyIntoMembersThatRun) {
  put_pod("train", "Succeeded");
  EXPECT_FALSE(open("train", R"("kind":"exec","command":["ls"])"));
  EXPECT_EQ(refused_.status, 404);
}

TEST_F(ClusterVisits, AChannelIsItsConnection) {
  put_pod("train", "Running");
  const std::string channels = "/v1/jobs/" + id("train") + "/channels";
  EXPECT_EQ(ask("GET", channels + "?channel=" + std::string(64, 'a')).status, 404);
  const auto inside =
      ask("POST", channels,
          fmt::format(R"({{"channel":"{}","kind":"exec","command":["x"]}})", std::string(64, 'a')));
  EXPECT_EQ(inside.status, 501);
  EXPECT_THAT(detail(inside), HasSubstr("kubectl -n team-a exec -it train -c main -- COMMAND"));
}

}  // namespace
}  // namespace divvy::kube_api
