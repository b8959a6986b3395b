#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <thread>

#include "net/http.h"

namespace divvy::net {
namespace {

class HttpNetwork : public ::testing::Test {
 protected:
  void serve(HttpHandler handler) {
    options_.network = TcpAddress{"127.0.0.1", 0};
    auto made = HttpServer::create(options_, std::move(handler));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    server_ = *std::move(made);
  }

  [[nodiscard]] TcpAddress address() const { return {"127.0.0.1", server_->port()}; }

  [[nodiscard]] Result<HttpResponse> get(const std::string& path) const {
    return http_request(address(), {.method = "GET", .path = path, .query = "a=b", .body = {}},
                        std::chrono::seconds(30));
  }

  // A connection that says what no client would.
  [[nodiscard]] int connect() const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }

  HttpServerOptions options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpNetwork, ServesOnAFreePortToNobodyInParticular) {
  serve([](const HttpRequest& request, const Caller& caller) {
    EXPECT_EQ(caller.pid(), 0);
    EXPECT_EQ(caller.uid(), Caller::kNobody);
    return HttpResponse{200, "text/plain", request.path + " " + request.query};
  });
  EXPECT_NE(server_->port(), 0);
  const auto answer = get("/metrics");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "/metrics a=b");
}

TEST_F(HttpNetwork, SaysThatThePortIsTaken) {
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  HttpServerOptions second;
  second.network = address();
  const auto refused =
      HttpServer::create(second, [](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(refused.error().message.find(to_string(address())), std::string::npos);
}

TEST_F(HttpNetwork, ClientsThatSayNothingDoNotKeepOthersWaiting) {
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  const int silent = connect();
  const int slow = connect();
  ASSERT_EQ(::write(slow, "GET /met", 8), 8);
  EXPECT_EQ(get("/")->status, 200);
  ::close(silent);
  ::close(slow);
}

TEST_F(HttpNetwork, GivesUpAClientThatDoesNotReadItsAnswer) {
  options_.patience = std::chrono::milliseconds(200);
  serve([](const HttpRequest& request, const Caller&) {
    // Far more than the sockets hold.
    return HttpResponse{200, "text/plain", std::string(request.path == "/" ? 10 : 64U << 20U, 'x')};
  });
  const int fd = connect();
  constexpr std::string_view kRequest = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::write(fd, kRequest.data(), kRequest.size()), static_cast<ssize_t>(kRequest.size()));
  EXPECT_EQ(get("/")->status, 200);
  // Ends without that client: otherwise the destructor would wait for its session for ever.
  server_.reset();
  ::close(fd);
}

TEST_F(HttpNetwork, AnswersAfterTheServerBeforeItHasEnded) {
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  EXPECT_EQ(get("/")->status, 200);
  const TcpAddress before = address();
  server_.reset();
  EXPECT_EQ(http_request(before, {.method = "GET", .path = "/", .query = {}, .body = {}},
                         std::chrono::seconds(30))
                .error()
                .code,
            ErrorCode::kUnavailable);
  options_.network = before;
  auto again = HttpServer::create(options_,
                                  [](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  ASSERT_TRUE(again.has_value()) << again.error().message;
}

}  // namespace
}  // namespace divvy::net
