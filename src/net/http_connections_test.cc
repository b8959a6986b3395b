#include "net/http_connections.h"

#include <sys/eventfd.h>

#include <fstream>
#include <future>
#include <set>
#include <sstream>
#include <thread>

#include "base/temporary_folder.h"
#include "net/http_testing.h"
#include "net/tls_testing.h"

namespace divvy::net {
namespace {

using std::chrono::seconds;

class HttpConnectionsTest : public HttpServerTest {
 protected:
  void TearDown() override {
    connections_.reset();
    server_.reset();
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  // Every connection has a thread of its own, which is how the server knows them apart.
  void serve_counted() {
    serve([this](const HttpRequest& request, const Caller&) {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      HttpResponse answer{200, "text/plain", "hello " + request.body, {}, {}};
      if (request.path == "/close") answer.headers["connection"] = "close";
      return answer;
    });
  }
  void connect(std::optional<TlsTrust> trust = {}) {
    HttpTarget target = this->target();
    target.tls = std::move(trust);
    auto made = HttpConnections::create({.target = std::move(target)});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    connections_ = *std::move(made);
  }
  Result<HttpResponse> ask(const std::string& method = "GET", const std::string& path = "/") {
    return connections_->request({.method = method, .path = path, .query = {}, .body = "there"},
                                 seconds(60));
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::unique_ptr<HttpConnections> connections_;
};

TEST_F(HttpConnectionsTest, OneConnectionForRequestsOneAfterTheOther) {
  serve_counted();
  connect();
  for (int i = 0; i < 5; ++i) {
    const auto answer = ask(i % 2 == 0 ? "GET" : "POST");
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->body, "hello there");
  }
  EXPECT_EQ(threads_.size(), 1U);
}

TEST_F(HttpConnectionsTest, SeveralAtOnceHaveOneEach) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> inside{0};
  serve([&](const HttpRequest&, const Caller&) {
    ++inside;
    gone.wait();
    return HttpResponse{};
  });
  connect();
  auto first = std::async(std::launch::async, [this] { return ask(); });
  auto second = std::async(std::launch::async, [this] { return ask(); });
  while (inside < 2) std::this_thread::yield();
  go.set_value();
  EXPECT_TRUE(first.get().has_value());
  EXPECT_TRUE(second.get().has_value());
}

TEST_F(HttpConnectionsTest, AServerThatWasRestartedIsFoundAgain) {
  serve_counted();
  connect();
  ASSERT_TRUE(ask().has_value());
  const std::uint16_t port = server_->port();
  for (const char* method : {"GET", "POST"}) {
    server_.reset();
    options_.network = TcpAddress{"127.0.0.1", port};
    auto made = HttpServer::create(options_, [](const HttpRequest&, const Caller&) {
      return HttpResponse{200, "text/plain", "again"};
    });
    ASSERT_TRUE(made.has_value()) << made.error().message;
    server_ = *std::move(made);
    const auto answer = ask(method);
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->body, "again");
  }
}

TEST_F(HttpConnectionsTest, ObeysAServerThatWantsNoMore) {
  serve_counted();
  connect();
  ASSERT_TRUE(ask("GET", "/close").has_value());
  ASSERT_TRUE(ask("GET", "/close").has_value());
  EXPECT_TRUE(ask().has_value());
}

TEST_F(HttpConnectionsTest, InsideTlsWithEverythingInMemory) {
  options_.tls = make_test_identity(folder_, "server", "gpu.example");
  const TlsIdentity client = make_test_identity(folder_, "client", "nobody");
  options_.tls->clients = client.certificate;
  serve_counted();
  TlsTrust trust;
  trust.authorities_pem = text_of(options_.tls->certificate);
  trust.client = TlsClientIdentity{text_of(client.certificate), text_of(client.key)};
  connect(trust);
  for (int i = 0; i < 3; ++i) {
    const auto answer = ask();
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
  }
  EXPECT_EQ(threads_.size(), 1U);
}

TEST_F(HttpConnectionsTest, AClientWithoutTheRightCertificateIsToldSo) {
  options_.tls = make_test_identity(folder_, "server", "gpu.example");
  options_.tls->clients = make_test_identity(folder_, "client", "nobody").certificate;
  const TlsIdentity other = make_test_identity(folder_, "other", "nobody");
  serve([](const HttpRequest&, const Caller&) {
    ADD_FAILURE() << "somebody unknown came in";
    return HttpResponse{};
  });
  TlsTrust trust;
  trust.authorities_pem = text_of(options_.tls->certificate);
  for (const bool shows_one : {false, true}) {
    if (shows_one) trust.client = TlsClientIdentity{text_of(other.certificate), text_of(other.key)};
    connect(trust);
    const auto answer = ask();
    ASSERT_FALSE(answer.has_value());
  }
}

TEST_F(HttpConnectionsTest, PemTextsThatAreNoneAreRefused) {
  options_.tls = make_test_identity(folder_, "server", "gpu.example");
  const TlsIdentity other = make_test_identity(folder_, "other", "nobody");
  serve_counted();
  TlsTrust trust;
  trust.authorities_pem = "nothing";
  HttpTarget target = this->target();
  const auto refusal = [&] {
    target.tls = trust;
    const auto made = HttpConnections::create({.target = target});
    return made ? std::string("it was taken") : made.error().message;
  };
  EXPECT_NE(refusal().find("authority"), std::string::npos) << refusal();
  trust.authorities_pem = text_of(options_.tls->certificate);
  trust.client = TlsClientIdentity{"nothing", text_of(other.key)};
  EXPECT_NE(refusal().find("client certificate"), std::string::npos) << refusal();
  trust.client = TlsClientIdentity{text_of(other.certificate), text_of(options_.tls->key)};
  EXPECT_NE(refusal().find("client key"), std::string::npos) << refusal();
  EXPECT_EQ(refusal().find("PRIVATE"), std::string::npos) << "secrets stay out of messages";
}

TEST_F(HttpConnectionsTest, AStopEndsAStreamThatIsSilent) {
  const int never = ::eventfd(0, EFD_CLOEXEC);
  serve([never](const HttpRequest&, const Caller&) {
    HttpResponse answer;
    answer.stream = [never](HttpStream& stream) {
      EXPECT_TRUE(stream.send("one"));
      EXPECT_EQ(stream.caller().wait_for(never, std::chrono::milliseconds(-1)),
                Caller::Wait::kGone);
    };
    return answer;
  });
  connect();
  std::stop_source stop;
  std::promise<void> began;
  auto follower = std::async(std::launch::async, [&] {
    return connections_->follow(
        {.method = "GET", .path = "/", .query = {}, .body = {}}, {},
        [&](std::string_view) {
          began.set_value();
          return true;
        },
        stop.get_token());
  });
  began.get_future().wait();
  stop.request_stop();
  const auto ended = follower.get();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, ErrorCode::kCancelled);
  const auto late = connections_->follow(
      {.method = "GET", .path = "/", .query = {}, .body = {}}, {},
      [](std::string_view) { return true; }, stop.get_token());
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::kCancelled) << "also one that begins after it";
  server_.reset();
  ::close(never);
}

}  // namespace
}  // namespace divvy::net
