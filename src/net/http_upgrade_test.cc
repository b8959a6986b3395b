#include <sys/socket.h>

#include <thread>

#include "base/temporary_folder.h"
#include "net/http_testing.h"
#include "net/tls_testing.h"

namespace divvy::net {
namespace {

using std::chrono::seconds;

std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// Everything with TLS, and everything without.
class HttpUpgradeTest : public HttpServerTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) options_.tls = make_test_identity(folder_, "server", "gpu.example");
  }
  void TearDown() override {
    server_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  // What is behind the upgrade does `work` with its socket.
  void serve_upgrade(std::function<void(int)> work) {
    serve([this, work = std::move(work)](const HttpRequest& request, const Caller&) {
      HttpResponse answer;
      EXPECT_EQ(request.body, "please");
      answer.upgrade = [this, work,
                        header = std::string(request.header("upgrade"))](UniqueFd& socket) {
        if (header != "test") return HttpResponse{409, "text/plain", "no " + header};
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        socket = UniqueFd(ends[0]);
        threads_.emplace_back([work, fd = ends[1]] {
          work(fd);
          ::close(fd);
        });
        HttpResponse switching{101, "", ""};
        switching.headers["upgrade"] = "test";
        return switching;
      };
      return answer;
    });
  }
  [[nodiscard]] Result<HttpUpgrade> upgrade(const std::string& protocol = "test") const {
    HttpTarget to = target();
    if (GetParam()) to.tls = TlsTrust{folder_ / "server.pem", "gpu.example"};
    return http_upgrade(to,
                        {.method = "POST",
                         .path = "/",
                         .query = {},
                         .body = "please",
                         .headers = {{"upgrade", protocol}}},
                        seconds(30));
  }

  TemporaryFolder folder_;
  std::vector<std::thread> threads_;
};

TEST_P(HttpUpgradeTest, BytesGoBothWaysAndEachEndIsPassedOn) {
  serve_upgrade([](int fd) {
    EXPECT_EQ(::write(fd, "first ", 6), 6);
    const std::string all = read_to_end(fd);  // They say the end, and still listen.
    EXPECT_EQ(::write(fd, all.data(), all.size()), static_cast<ssize_t>(all.size()));
  });
  auto made = upgrade();
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->answer.status, 101) << made->answer.body;
  EXPECT_EQ(made->answer.headers["upgrade"], "test");
  ASSERT_NE(made->tunnel, nullptr);
  std::string sent;
  for (int i = 0; i < 20'000; ++i) sent += std::to_string(i) + " ";
  ASSERT_EQ(::write(made->tunnel->fd(), sent.data(), sent.size()),
            static_cast<ssize_t>(sent.size()));
  ::shutdown(made->tunnel->fd(), SHUT_WR);
  EXPECT_TRUE(read_to_end(made->tunnel->fd()) == "first " + sent);
}

TEST_P(HttpUpgradeTest, ARefusalComesWithItsBody) {
  serve_upgrade([](int) {});
  auto made = upgrade("something-else");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->tunnel, nullptr);
  EXPECT_EQ(made->answer.status, 409);
  EXPECT_EQ(made->answer.body, "no something-else");
}

TEST_P(HttpUpgradeTest, CountsAsAStream) {
  options_.max_streams = 1;
  serve_upgrade([](int fd) { (void)read_to_end(fd); });
  const auto first = upgrade();
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_EQ(first->answer.status, 101);
  const auto second = upgrade();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->answer.status, 503);
}

TEST_P(HttpUpgradeTest, EndsWithTheServerAndWithTheClient) {
  serve_upgrade([](int fd) { (void)read_to_end(fd); });
  auto given_up = upgrade();
  ASSERT_TRUE(given_up) << given_up.error().message;
  given_up->tunnel.reset();
  auto cut = upgrade();
  ASSERT_TRUE(cut) << cut.error().message;
  server_.reset();
  EXPECT_EQ(read_to_end(cut->tunnel->fd()), "");
}

INSTANTIATE_TEST_SUITE_P(Plain, HttpUpgradeTest, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Tls, HttpUpgradeTest, ::testing::Values(true));

using HttpUpgradeBytes = HttpServerTest;

TEST_F(HttpUpgradeBytes, WhatCameBehindTheRequestIsNotLost) {
  std::thread other;
  serve([&](const HttpRequest&, const Caller&) {
    HttpResponse answer;
    answer.upgrade = [&](UniqueFd& socket) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      socket = UniqueFd(ends[0]);
      other = std::thread([fd = ends[1]] {
        const std::string all = read_to_end(fd);
        EXPECT_EQ(::write(fd, all.data(), all.size()), static_cast<ssize_t>(all.size()));
        ::close(fd);
      });
      return HttpResponse{101, "", ""};
    };
    return answer;
  });
  const int fd = say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}early");
  ::shutdown(fd, SHUT_WR);
  const std::string heard = hear(fd);
  EXPECT_TRUE(heard.ends_with("\r\n\r\nearly")) << heard;
  ::close(fd);
  server_.reset();
  other.join();
}

}  // namespace
}  // namespace divvy::net
