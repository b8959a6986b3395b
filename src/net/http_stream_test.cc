#include <sys/eventfd.h>

#include <future>
#include <thread>

#include "net/http_testing.h"
#include "net/server_sent_events.h"

namespace divvy::net {
namespace {

using std::chrono::milliseconds;

class HttpStreamTest : public HttpServerTest {
 protected:
  // Everything under /stream is streamed by `stream`; the rest is an answer that ends.
  void serve_stream(std::function<void(HttpStream&)> stream) {
    serve([stream = std::move(stream)](const HttpRequest& request, const Caller&) {
      HttpResponse answer{200, std::string(kEventStream), "", {}, {}};
      if (request.path == "/stream") answer.stream = stream;
      return answer;
    });
  }
};

constexpr std::string_view kAsk = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpStreamTest, PiecesArriveAsTheyAreSent) {
  std::promise<void> first_seen;
  serve_stream([&](HttpStream& stream) {
    EXPECT_TRUE(stream.send(write_event({"1", "job", "queued"})));
    first_seen.get_future().wait();  // It arrived while the answer was not over
    EXPECT_TRUE(stream.send(""));
    EXPECT_TRUE(stream.send(write_event({"2", "job", "running"})));
  });
  EventReader reader;
  std::vector<ServerSentEvent> events;
  const auto answer = follow("/stream", [&](std::string_view piece) {
    EXPECT_TRUE(reader.read(piece, [&](const ServerSentEvent& event) {
      events.push_back(event);
      if (events.size() == 1) first_seen.set_value();
      return true;
    }));
    return true;
  });
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->content_type, kEventStream);
  EXPECT_EQ(events,
            (std::vector<ServerSentEvent>{{"1", "job", "queued"}, {"2", "job", "running"}}));
}

TEST_F(HttpStreamTest, AnAnswerThatIsNoStreamComesWithItsBody) {
  serve([](const HttpRequest&, const Caller&) { return HttpResponse{404, "text/plain", "no"}; });
  const auto answer = follow("/", [](std::string_view) {
    ADD_FAILURE() << "a problem is no piece";
    return true;
  });
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "no");
}

TEST_F(HttpStreamTest, EndsForTheServerWhenTheClientHasEnough) {
  std::promise<Caller::Wait> outcome;
  const int never = ::eventfd(0, EFD_CLOEXEC);
  serve_stream([&](HttpStream& stream) {
    EXPECT_TRUE(stream.send("one"));
    outcome.set_value(stream.caller().wait_for(never, milliseconds(-1)));
  });
  ASSERT_TRUE(follow("/stream", [](std::string_view) { return false; }).has_value());
  EXPECT_EQ(outcome.get_future().get(), Caller::Wait::kGone);
  ::close(never);
}

TEST_F(HttpStreamTest, ASlowClientIsGivenUpAndHoldsNobodyUp) {
  options_.patience = milliseconds(200);
  std::promise<void> given_up;
  serve_stream([&](HttpStream& stream) {
    // Far more than the sockets hold.
    const std::string piece(1U << 20U, 'x');
    std::size_t sent = 0;
    while (stream.send(piece)) ++sent;
    EXPECT_LT(sent, 64U);
    EXPECT_FALSE(stream.send("more"));
    given_up.set_value();
  });
  const int slow = say(kAsk);
  EXPECT_EQ(get("/")->status, 200);
  given_up.get_future().wait();
  ::close(slow);
}

TEST_F(HttpStreamTest, TheServerEndsWhileStreamsRun) {
  const int never = ::eventfd(0, EFD_CLOEXEC);
  std::promise<void> inside;
  serve_stream([&](HttpStream& stream) {
    EXPECT_TRUE(stream.send("one"));
    inside.set_value();
    EXPECT_EQ(stream.caller().wait_for(never, milliseconds(-1)), Caller::Wait::kGone);
  });
  auto client = std::async(
      std::launch::async, [&] { return follow("/stream", [](std::string_view) { return true; }); });
  inside.get_future().wait();
  server_.reset();
  EXPECT_FALSE(client.get().has_value()) << "an end that was not said is seen";
  ::close(never);
}

TEST_F(HttpStreamTest, StreamsLeaveConnectionsForRequests) {
  options_.max_streams = 2;
  const int release = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  std::atomic<int> inside{0};
  serve_stream([&](HttpStream& stream) {
    ++inside;
    (void)stream.caller().wait_for(release, milliseconds(-1));
  });
  const int first = say(kAsk);
  const int second = say(kAsk);
  while (inside < 2) std::this_thread::yield();
  EXPECT_EQ(get("/stream")->status, 503);
  EXPECT_EQ(get("/")->status, 200);
  ::close(first);
  ::close(second);
  // Their places are free when the server has seen that they are gone.
  ASSERT_EQ(::eventfd_write(release, 100), 0);
  while (get("/stream")->status == 503) std::this_thread::yield();
  ::close(release);
}

TEST_F(HttpStreamTest, AThrowingHandlerTruncatesTheStream) {
  serve_stream([](HttpStream& stream) {
    EXPECT_TRUE(stream.send("one"));
    throw std::runtime_error("oh dear");
  });
  EXPECT_FALSE(follow("/stream", [](std::string_view) { return true; }).has_value());
  EXPECT_EQ(get("/")->status, 200);
}

TEST_F(HttpStreamTest, OldClientsKnowTheEndByTheEndOfTheConnection) {
  serve_stream([](HttpStream& stream) { EXPECT_TRUE(stream.send("hello")); });
  const int fd = say("GET /stream HTTP/1.0\r\n\r\n");
  const std::string text = hear(fd);
  ::close(fd);
  EXPECT_TRUE(text.ends_with("\r\n\r\nhello")) << text;
  EXPECT_EQ(text.find("chunked"), std::string::npos);
}

TEST_F(HttpStreamTest, ASilentServerTimesOut) {
  const int never = ::eventfd(0, EFD_CLOEXEC);
  serve_stream(
      [&](HttpStream& stream) { (void)stream.caller().wait_for(never, milliseconds(-1)); });
  const auto answer =
      http_follow(target(), {.method = "GET", .path = "/stream", .query = {}, .body = {}},
                  milliseconds(50), [](std::string_view) { return true; });
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
  ::close(never);
}

}  // namespace
}  // namespace divvy::net
