// WebSockets as carriers, on both ends, and what the server does with peers that are none of ours.
#include "net/websocket.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "base/temporary_folder.h"
#include "net/http_testing.h"
#include "net/tls_testing.h"

namespace divvy::net {
namespace {

using std::chrono::seconds;

std::string read_until_closed(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

void write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ASSERT_GT(wrote, 0);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

std::string read_whole(int fd, std::size_t size) {
  std::string text(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    const ssize_t now = ::read(fd, text.data() + got, size - got);
    if (now <= 0) break;
    got += static_cast<std::size_t>(now);
  }
  text.resize(got);
  return text;
}

std::string many_bytes(std::size_t count) {
  std::string bytes;
  bytes.reserve(count + 16);
  for (std::size_t i = 0; bytes.size() < count; ++i) bytes += std::to_string(i * 7919) + "\n";
  return bytes;
}

class WebSocketServerTest : public HttpServerTest {
 protected:
  void TearDown() override {
    server_.reset();
    for (std::thread& thread : threads_) thread.join();
  }
  // What is behind the upgrade does `work` with its socket.
  void serve_websocket(std::function<void(int)> work) {
    serve([this, work = std::move(work)](const HttpRequest& request, const Caller&) {
      HttpResponse answer;
      answer.upgrade = [this, work, path = request.path](UniqueFd& socket) {
        ++opened_;
        if (path == "/refused") return HttpResponse{409, "text/plain", "not today"};
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        socket = UniqueFd(ends[0]);
        threads_.emplace_back([work, fd = ends[1]] {
          work(fd);
          ::close(fd);
        });
        HttpResponse switching{101, "", ""};
        switching.headers["upgrade"] = "websocket";
        if (path == "/chosen") switching.headers["sec-websocket-protocol"] = "one.v1";
        return switching;
      };
      return answer;
    });
  }
  static void echo(int fd) {
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
      if (::send(fd, buffer, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
    }
  }

  TemporaryFolder folder_;
  std::atomic<int> opened_{0};
  std::vector<std::thread> threads_;
};

TEST_F(WebSocketServerTest, MessagesComeAndGoAsWhatTheyAre) {
  std::string heard;
  serve_websocket([&heard](int fd) {
    for (const std::string_view said : {"one", "two and a half"}) {
      write_whole(fd, said);
      char buffer[64];
      const ssize_t got = ::read(fd, buffer, sizeof buffer);
      heard.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
  });
  auto made = http_upgrade(target(),
                           {.method = "GET",
                            .path = "/",
                            .query = {},
                            .body = {},
                            .headers = {{"upgrade", "websocket"}}},
                           seconds(30), TunnelOf::kMessages);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  ASSERT_NE(made->tunnel, nullptr);
  const int fd = made->tunnel->fd();
  std::array<char, 4096> buffer{};
  const auto next = [&] {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    return std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  };
  EXPECT_EQ(next(), "one");
  write_whole(fd, "first");
  EXPECT_EQ(next(), "two and a half");
  write_whole(fd, "second");
  EXPECT_EQ(next(), "");
  server_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  EXPECT_EQ(heard, "firstsecond");
}

TEST_F(WebSocketServerTest, AnAnswerThatGrowsEndsWhenTheTokenThatAskedForItIsRevoked) {
  std::atomic<bool> revoked{false};
  options_.look_again = std::chrono::milliseconds(1);
  options_.account = [&](const HttpRequest&, const Caller&) {
    return revoked ? std::nullopt : std::optional<std::string>("ada");
  };
  serve([](const HttpRequest&, const Caller&) {
    HttpResponse answer;
    answer.stream = [](HttpStream& stream) {
      while (stream.send("event\n")) {
      }
    };
    return answer;
  });
  const auto ended = http_follow(target(), {.method = "GET", .path = "/", .query = {}, .body = {}},
                                 seconds(30), [&](std::string_view) {
                                   revoked = true;
                                   return true;
                                 });
  EXPECT_FALSE(ended) << "and whoever reads it sees that its end is missing";
}

// Everything with TLS, and everything without.
class WebSockets : public WebSocketServerTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) options_.tls = make_test_identity(folder_, "server", "gpu.example");
  }
  [[nodiscard]] Result<HttpUpgrade> connect(const std::string& path = "/") const {
    HttpTarget to = target();
    if (GetParam()) to.tls = TlsTrust{folder_ / "server.pem", "gpu.example"};
    return http_upgrade(to,
                        {.method = "GET",
                         .path = path,
                         .query = "name=value",
                         .body = {},
                         .headers = {{"upgrade", "websocket"}}},
                        seconds(30));
  }
};

TEST_P(WebSockets, AreCutWhenTheTokenThatOpenedThemIsRevoked) {
  std::atomic<bool> revoked{false};
  options_.look_again = std::chrono::milliseconds(1);
  options_.account = [&](const HttpRequest&, const Caller&) {
    return revoked ? std::nullopt : std::optional<std::string>("ada");
  };
  serve_websocket(echo);
  const auto made = connect();
  ASSERT_TRUE(made && made->tunnel) << made.error().message;
  write_whole(made->tunnel->fd(), "hello");
  EXPECT_EQ(read_whole(made->tunnel->fd(), 5), "hello");
  revoked = true;
  EXPECT_EQ(read_until_closed(made->tunnel->fd()), "");
}

TEST_P(WebSockets, BytesGoBothWaysAtOnceHoweverMany) {
  const std::string there = many_bytes(3'000'000);
  const std::string back = many_bytes(2'000'000);
  serve_websocket([&](int fd) {
    std::thread sender([&] { write_whole(fd, back); });
    EXPECT_TRUE(read_whole(fd, there.size()) == there);
    sender.join();
  });
  auto made = connect();
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->answer.status, 101) << made->answer.body;
  ASSERT_NE(made->tunnel, nullptr);
  std::thread sender([&] { write_whole(made->tunnel->fd(), there); });
  EXPECT_TRUE(read_whole(made->tunnel->fd(), back.size()) == back);
  sender.join();
  // Until the other side has everything and hangs up; before that we would cut it off.
  EXPECT_EQ(read_until_closed(made->tunnel->fd()), "");
}

TEST_P(WebSockets, WhatWasSaidBeforeTheEndArrives) {
  const std::string last = many_bytes(500'000);
  serve_websocket([&](int fd) { write_whole(fd, last); });
  auto made = connect();
  ASSERT_TRUE(made && made->tunnel);
  EXPECT_TRUE(read_until_closed(made->tunnel->fd()) == last);
}

TEST_P(WebSockets, ARefusalComesWithItsBody) {
  serve_websocket([](int) {});
  auto made = connect("/refused");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->tunnel, nullptr);
  EXPECT_EQ(made->answer.status, 409);
  EXPECT_EQ(made->answer.body, "not today");
}

TEST_P(WebSockets, CountAsStreams) {
  options_.max_streams = 1;
  serve_websocket([](int fd) { (void)read_until_closed(fd); });
  const auto first = connect();
  ASSERT_TRUE(first && first->tunnel);
  const auto second = connect();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->answer.status, 503);
}

TEST_P(WebSockets, EndWithTheServerAndWithTheClient) {
  serve_websocket([](int fd) { (void)read_until_closed(fd); });
  auto given_up = connect();
  ASSERT_TRUE(given_up && given_up->tunnel);
  given_up->tunnel.reset();
  auto cut = connect();
  ASSERT_TRUE(cut && cut->tunnel);
  server_.reset();
  EXPECT_EQ(read_until_closed(cut->tunnel->fd()), "");
}

INSTANTIATE_TEST_SUITE_P(Plain, WebSockets, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Tls, WebSockets, ::testing::Values(true));

// --- Bytes as RFC 6455 has them, without any library ---

class WebSocketBytes : public WebSocketServerTest {
 protected:
  static std::string handshake(const std::string& more = {}, const std::string& path = "/") {
    return "GET " + path +
           " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
           more + "\r\n";
  }
  // After the answer to the handshake.
  [[nodiscard]] int connect() const {
    const int fd = say(handshake());
    std::string head;
    char one = 0;
    while (!head.ends_with("\r\n\r\n") && ::read(fd, &one, 1) == 1) head += one;
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101")) << head;
    // The example of the standard, in 1.3.
    EXPECT_NE(head.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), std::string::npos) << head;
    return fd;
  }
  static std::string hear_then_close(int fd) {
    const std::string heard = hear(fd);
    ::close(fd);
    return heard;
  }
  // Masked with 0, which is allowed.
  static std::string frame(int kind, const std::string& bytes) {
    return std::string{static_cast<char>(0x80 | kind),
                       static_cast<char>(0x80 | bytes.size()),
                       '\0',
                       '\0',
                       '\0',
                       '\0'} +
           bytes;
  }
};

TEST_F(WebSocketBytes, AMaskedMessageComesThroughAndItsEchoIsNotMasked) {
  serve_websocket(echo);
  const int fd = connect();
  // "Hello", as in 5.7 of the standard, as bytes.
  write_whole(fd, std::string("\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11));
  EXPECT_EQ(read_whole(fd, 7), "\x82\x05Hello");
  // A ping is answered with the same bytes, and a close with a close.
  write_whole(fd, frame(9, "are you there"));
  EXPECT_EQ(read_whole(fd, 15), std::string("\x8a\x0d") + "are you there");
  write_whole(fd, frame(8, std::string("\x03\xe8", 2)));
  EXPECT_EQ(read_whole(fd, 4), std::string("\x88\x02\x03\xe8", 4));
  EXPECT_EQ(hear_then_close(fd), "");
}

TEST_F(WebSocketBytes, TheProtocolIsTheOneThatTheHandlerChoseAndNoOther) {
  serve_websocket([](int) {});
  const std::string offered = "Sec-WebSocket-Protocol: one.v1, secret.0123456789\r\n";
  const std::string chosen = hear_then_close(say(handshake(offered, "/chosen")));
  EXPECT_NE(chosen.find("\r\nSec-WebSocket-Protocol: one.v1\r\n"), std::string::npos) << chosen;
  EXPECT_EQ(chosen.find("secret"), std::string::npos) << chosen;
  const std::string none = hear_then_close(say(handshake(offered)));
  EXPECT_TRUE(none.starts_with("HTTP/1.1 101")) << none;
  EXPECT_EQ(none.find("Sec-WebSocket-Protocol"), std::string::npos) << none;
}

TEST_F(WebSocketBytes, BrokenFramesEndTheConnectionAndPassNothingOn) {
  // The connection is kept for so long, in case that more comes.
  options_.patience = std::chrono::seconds(1);
  for (const std::string& bytes : {
           std::string("\x82\x05Hello"),        // not masked
           std::string("\x83\x80\0\0\0\0", 6),  // a kind that there is not
           std::string("\xc2\x80\0\0\0\0", 6),  // compressed
           std::string("\x09\x80\0\0\0\0", 6),  // a ping in pieces
           std::string("\x80\x80\0\0\0\0", 6),  // goes on with nothing
           std::string("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
                       14)  // longer than may be
       }) {
    std::string passed_on = "nothing was opened";
    serve_websocket([&](int fd) { passed_on = read_until_closed(fd); });
    const int fd = connect();
    write_whole(fd, bytes);
    (void)hear_then_close(fd);
    server_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    EXPECT_EQ(passed_on, "");
  }
}

TEST_F(WebSocketBytes, NothingIsOpenedForWhatIsNoHandshake) {
  // The connection is kept for so long, in case that more comes.
  options_.patience = std::chrono::seconds(1);
  serve_websocket(echo);
  const auto answer_to = [&](const std::string& bytes) { return hear_then_close(say(bytes)); };
  for (const std::string& request : {
           std::string("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Version: 13\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Version: 8\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
           handshake() + "too early",
       }) {
    const std::string answer = answer_to(request);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400")) << request << answer;
  }
  EXPECT_EQ(opened_, 0);
}

}  // namespace
}  // namespace divvy::net
