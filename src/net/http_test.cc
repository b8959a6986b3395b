#include "net/http.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/temporary_folder.h"

namespace divvy::net {
namespace {

class Http : public ::testing::Test {
 protected:
  void SetUp() override { options_.socket = folder_ / "socket"; }
  void TearDown() override { server_.reset(); }

  void serve(HttpHandler handler) {
    auto made = HttpServer::create(options_, std::move(handler));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    server_ = *std::move(made);
  }

  Result<HttpResponse> send(const std::string& method, const std::string& path,
                            const std::string& body = {}) const {
    return http_request(options_.socket,
                        {.method = method, .path = path, .query = {}, .body = body},
                        std::chrono::seconds(30));
  }

  // A connection for bytes that no client would send.
  int connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    options_.socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  TemporaryFolder folder_;
  HttpServerOptions options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Http, CarriesARequestAndItsAnswer) {
  serve([](const HttpRequest& request, const Caller& caller) {
    EXPECT_EQ(caller.pid(), ::getpid());
    EXPECT_EQ(caller.uid(), ::geteuid());
    return HttpResponse{
        201, "text/plain",
        request.method + " " + request.path + "?" + request.query + " " + request.body};
  });
  const auto answer = send("PATCH", "/v1/x?a=b", "hello");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->content_type, "text/plain");
  EXPECT_EQ(answer->body, "PATCH /v1/x?a=b hello");
}

TEST_F(Http, SaysThatNobodyListens) {
  const auto answer = send("GET", "/");
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

TEST_F(Http, RefusesABodyThatIsTooLarge) {
  options_.max_body = 1000;
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  const auto answer = send("POST", "/", std::string(5000, 'x'));
  if (answer) {
    EXPECT_EQ(answer->status, 413);
  }
  EXPECT_EQ(send("POST", "/", std::string(1000, 'x'))->status, 200);
}

TEST_F(Http, SurvivesGarbageAndHalfRequests) {
  options_.patience = std::chrono::milliseconds(200);
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  for (const char* bytes : {"\x16\x03\x01", "GET", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab",
                            "POST / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n"}) {
    const int fd = connect();
    (void)!::write(fd, bytes, strlen(bytes));
    // The server hangs up, at once or when its patience is over.
    char buffer[4096];
    while (::read(fd, buffer, sizeof buffer) > 0) {
    }
    ::close(fd);
  }
  EXPECT_EQ(send("GET", "/")->status, 200);
}

TEST_F(Http, TurnsAwayMoreCallersThanItCanServe) {
  options_.max_connections = 2;
  std::atomic<int> inside{0};
  std::atomic<bool> released{false};
  serve([&](const HttpRequest&, const Caller&) {
    ++inside;
    inside.notify_all();
    released.wait(false);
    return HttpResponse{};
  });
  // Threads and not futures: what hands over a future's value lies in the C++ library, which the
  // thread sanitizer does not see into.
  int first_status = 0;
  int second_status = 0;
  std::thread first([&] { first_status = send("GET", "/")->status; });
  std::thread second([&] { second_status = send("GET", "/")->status; });
  for (int now = inside; now < 2; now = inside) inside.wait(now);
  EXPECT_EQ(send("GET", "/")->status, 503);
  released = true;
  released.notify_all();
  first.join();
  second.join();
  EXPECT_EQ(first_status, 200);
  EXPECT_EQ(second_status, 200);
}

TEST_F(Http, OneUserDoesNotTakeEveryConnection) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
  options_.mode = 0666;
  options_.max_connections = 3;
  options_.max_per_caller = 2;
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  serve([](const HttpRequest&, const Caller& caller) {
    return HttpResponse{.body = std::to_string(caller.uid())};
  });
  // Connections of another user that say nothing: the server gives them ten seconds.
  const auto as_other = [this] {
    int fd = -1;
    std::thread([&] {
      // Of this thread alone: the kernel's own call, past the C library, which tells all threads.
      ::syscall(SYS_setresuid, -1, 65'534, -1);
      fd = connect();
    }).join();
    return fd;
  };
  const int first = as_other();
  const int second = as_other();
  const int third = as_other();
  char text[16] = {};
  EXPECT_GT(::read(third, text, sizeof text - 1), 0);
  EXPECT_EQ(std::string(text), "HTTP/1.1 429 To");
  EXPECT_EQ(send("GET", "/")->body, "0");
  for (const int fd : {first, second, third}) ::close(fd);
}

TEST_F(Http, OperatorsGetInWhereUsersHaveTakenEveryPlace) {
  options_.max_connections = 1;
  options_.max_for_operators = 1;
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{}; });
  const int taken = connect();
  EXPECT_EQ(send("GET", "/")->status, 200);
  ::close(taken);
}

TEST_F(Http, OperatorsGetAStreamWhereUsersHaveTakenEveryOne) {
  options_.max_streams = 1;
  options_.max_for_operators = 1;
  const int never = ::eventfd(0, 0);
  std::promise<void> inside;
  serve([&](const HttpRequest& request, const Caller&) {
    HttpResponse answer;
    answer.stream = [&, stays = request.path == "/stays"](HttpStream& stream) {
      if (!stays) return;
      inside.set_value();
      (void)stream.caller().wait_for(never, std::chrono::milliseconds(-1));
    };
    return answer;
  });
  const int taken = connect();
  constexpr std::string_view kRequest = "GET /stays HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::write(taken, kRequest.data(), kRequest.size()),
            static_cast<ssize_t>(kRequest.size()));
  inside.get_future().wait();
  EXPECT_EQ(send("GET", "/")->status, 200);
  ::close(taken);
  server_.reset();
  ::close(never);
}

TEST_F(Http, TellsAHandlerThatItsCallerIsGone) {
  const int never = ::eventfd(0, 0);
  std::promise<Caller::Wait> outcome;
  std::promise<void> inside;
  serve([&](const HttpRequest&, const Caller& caller) {
    inside.set_value();
    outcome.set_value(caller.wait_for(never, std::chrono::milliseconds(-1)));
    return HttpResponse{};
  });
  const int fd = connect();
  constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::write(fd, kRequest.data(), kRequest.size()), static_cast<ssize_t>(kRequest.size()));
  inside.get_future().wait();
  ::close(fd);
  EXPECT_EQ(outcome.get_future().get(), Caller::Wait::kGone);
  ::close(never);
}

TEST_F(Http, EndsWhileAHandlerWaits) {
  const int never = ::eventfd(0, 0);
  std::promise<void> inside;
  serve([&](const HttpRequest&, const Caller& caller) {
    inside.set_value();
    EXPECT_EQ(caller.wait_for(never, std::chrono::milliseconds(-1)), Caller::Wait::kGone);
    return HttpResponse{};
  });
  auto client = std::async(std::launch::async, [&] { return send("GET", "/").has_value(); });
  inside.get_future().wait();
  server_.reset();
  EXPECT_FALSE(client.get());
  ::close(never);
}

}  // namespace
}  // namespace divvy::net
