#include <atomic>
#include <thread>

#include "net/http_testing.h"

namespace divvy::net {
namespace {

class HttpLimits : public HttpServerTest {};

HttpResponse fine(const HttpRequest&, const Caller&) { return {}; }

TEST_F(HttpLimits, HeadersArriveInLowerCaseInBothDirections) {
  serve([](const HttpRequest& request, const Caller& caller) {
    EXPECT_EQ(caller.address(), "127.0.0.1");
    EXPECT_FALSE(caller.local());
    HttpResponse answer;
    answer.body = std::string(request.header("authorization")) + "|" +
                  std::string(request.header("idempotency-key")) + "|" +
                  std::string(request.header("none"));
    answer.headers["location"] = "/v1/jobs/7";
    return answer;
  });
  const auto answer = get("/", {{"Authorization", "Bearer x"}, {"IDEMPOTENCY-KEY", "k"}});
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->body, "Bearer x|k|");
  EXPECT_EQ(answer->headers.at("location"), "/v1/jobs/7");
}

TEST_F(HttpLimits, WhoAsksTooOftenIsToldToWait) {
  options_.max_rate = 3;
  serve(fine);
  int passed = 0;
  Result<HttpResponse> answer = get("/");
  while (answer->status == 200) {
    ++passed;
    answer = get("/");
  }
  EXPECT_GE(passed, 3);
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->content_type, "application/problem+json");
  EXPECT_EQ(answer->headers.at("retry-after"), "1");
}

TEST_F(HttpLimits, UnauthenticatedRequestsDoNotConsumeACallersRate) {
  options_.max_rate = 3;
  options_.account = [](const HttpRequest& request, const Caller&) -> std::optional<std::string> {
    if (request.header("authorization") == "right") return "ada";
    return std::nullopt;
  };
  serve(fine);
  while (get("/", {{"Authorization", "a guess"}})->status == 200) {
  }
  EXPECT_EQ(get("/", {{"Authorization", "right"}})->status, 200);
}

TEST_F(HttpLimits, OneCallerDoesNotTakeEveryConnection) {
  options_.max_per_caller = 2;
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
  std::thread first([&] { first_status = get("/")->status; });
  std::thread second([&] { second_status = get("/")->status; });
  for (int now = inside; now < 2; now = inside) inside.wait(now);
  EXPECT_EQ(get("/")->status, 429);
  released = true;
  released.notify_all();
  first.join();
  second.join();
  EXPECT_EQ(first_status, 200);
  EXPECT_EQ(second_status, 200);
  // The server may see a moment later that they are gone.
  while (get("/")->status == 429) std::this_thread::yield();
}

TEST_F(HttpLimits, WhatIsNoRequestIsRefusedWithAReason) {
  serve(fine);
  for (const char* bytes : {"NONSENSE\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                            "GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    const int fd = say(bytes);
    const std::string text = hear(fd);
    ::close(fd);
    EXPECT_TRUE(text.starts_with("HTTP/1.1 400")) << bytes << text;
    EXPECT_NE(text.find("application/problem+json"), std::string::npos) << text;
  }
}

TEST_F(HttpLimits, ConnectIsNoMethodOfAnyPath) {
  serve(fine);
  const int fd = say("CONNECT /v1/jobs HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(hear(fd).starts_with("HTTP/1.1 405"));
  ::close(fd);
}

TEST_F(HttpLimits, TooManyOrTooLongHeadersAreRefused) {
  serve(fine);
  const int fd = say("GET / HTTP/1.1\r\nX: " + std::string(40'000, 'x') + "\r\n\r\n");
  EXPECT_TRUE(hear(fd).starts_with("HTTP/1.1 413"));
  ::close(fd);
}

TEST_F(HttpLimits, AnswersExpectContinue) {
  serve([](const HttpRequest& request, const Caller&) {
    return HttpResponse{200, "text/plain", request.body};
  });
  const int fd = say(
      "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
  char buffer[25];
  ASSERT_EQ(::recv(fd, buffer, sizeof buffer, MSG_WAITALL), 25);
  EXPECT_EQ(std::string_view(buffer, 25), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_EQ(::write(fd, "hello", 5), 5);
  EXPECT_TRUE(hear(fd).ends_with("hello"));
  ::close(fd);
}

TEST_F(HttpLimits, AHandlerThatThrowsIsAnInternalErrorAndNoMore) {
  serve([](const HttpRequest& request, const Caller&) {
    if (request.path == "/bad") throw std::runtime_error("oh dear");
    return HttpResponse{};
  });
  EXPECT_EQ(get("/bad")->status, 500);
  EXPECT_EQ(get("/")->status, 200);
}

}  // namespace
}  // namespace divvy::net
