#include "kube/http_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "kube/fake_api.h"
#include "kube/lister.h"
#include "kube/mirror.h"
#include "kube/selector.h"
#include "net/tls_testing.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const std::string kPods = "/api/v1/namespaces/a/pods";

json::object pod(const std::string& name) { return {{"metadata", {{"name", name}}}}; }

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

template <typename T>
ErrorCode code_of(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? ErrorCode::kInternal : result.error().code;
}

// The fake API server behind real HTTPS, which asks for a client certificate or a token.
class HttpApiTest : public ::testing::Test {
 protected:
  using Answer = std::function<std::optional<net::HttpResponse>(const net::HttpRequest&)>;

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "divvy-kube-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    identity_ = net::make_test_identity(folder_, "server", "kubernetes");
    server_options_.tls = identity_;
    token_ = std::make_shared<BearerToken>("secret-1");
  }
  void TearDown() override {
    api_.reset();
    stop_server();
    std::filesystem::remove_all(folder_);
  }

  void stop_server() {
    closing_.request_stop();
    server_.reset();
    closing_ = std::stop_source();
  }
  void serve(std::uint16_t port = 0) {
    server_options_.network = net::TcpAddress{"127.0.0.1", port};
    auto made = net::HttpServer::create(
        server_options_,
        [this](const net::HttpRequest& request, const net::Caller&) { return answer(request); });
    ASSERT_TRUE(made.has_value()) << made.error().message;
    server_ = *std::move(made);
  }
  [[nodiscard]] Credentials credentials() const {
    net::TlsTrust trust;
    trust.name = "kubernetes";
    trust.authorities_pem = text_of(identity_.certificate);
    Credentials credentials;
    credentials.target.network = net::TcpAddress{"127.0.0.1", server_->port()};
    credentials.target.tls = std::move(trust);
    credentials.target.server = "Kubernetes API server";
    credentials.token = token_;
    return credentials;
  }
  void connect(HttpApiOptions options = {}) { connect(credentials(), std::move(options)); }
  void connect(Credentials credentials, HttpApiOptions options = {}) {
    auto made = HttpApi::create(std::move(credentials), std::move(options), clock_);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    api_ = *std::move(made);
  }
  void set_answer(Answer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }

  net::HttpResponse answer(const net::HttpRequest& request) {
    Answer special;
    {
      const std::lock_guard lock(mutex_);
      special = answer_;
    }
    if (special) {
      if (auto given = special(request)) return *std::move(given);
    }
    if (request.header("authorization") != "Bearer secret-1")
      return status(401, "Unauthorized", "who?");
    const std::string path =
        request.query.empty() ? request.path : request.path + "?" + request.query;
    if (request.method == "GET" && request.query.find("watch=1") != std::string::npos) {
      return watch(path);
    }
    const json::value body =
        request.body.empty() ? json::value(json::object()) : json::parse(request.body);
    if (request.method == "GET") return to_answer(fake_.get(path));
    if (request.method == "POST") return to_answer(fake_.create(path, body.as_object()));
    if (request.method == "PUT") return to_answer(fake_.replace(path, body.as_object()));
    if (request.method == "PATCH") {
      const bool merge = request.header("content-type") == "application/merge-patch+json";
      return to_answer(fake_.patch(path, merge ? PatchType::kMerge : PatchType::kJson, body));
    }
    const Status removed = fake_.remove(path, body.as_object());
    return removed ? status(200, "", "") : to_answer(err(removed.error()));
  }

  static net::HttpResponse status(int code, const std::string& reason, const std::string& message) {
    const json::object document{
        {"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}};
    return {code, "application/json", json::serialize(document)};
  }
  static net::HttpResponse to_answer(const Result<json::object>& result) {
    if (result) return {200, "application/json", json::serialize(*result)};
    switch (result.error().code) {
      case ErrorCode::kNotFound:
        return status(404, "NotFound", result.error().message);
      case ErrorCode::kAlreadyExists:
        return status(409, "AlreadyExists", result.error().message);
      case ErrorCode::kFailedPrecondition:
        return status(409, "Conflict", result.error().message);
      case ErrorCode::kOutOfRange:
        return status(410, "Expired", result.error().message);
      case ErrorCode::kInvalidArgument:
        return status(422, "Invalid", result.error().message);
      default:
        return status(500, "InternalError", result.error().message);
    }
  }
  net::HttpResponse watch(const std::string& path) {
    net::HttpResponse answer;
    answer.stream = [this, path](net::HttpStream& stream) {
      const Status ended = fake_.watch(
          path,
          [&](const WatchEvent& event) {
            const char* types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
            const json::object line{{"type", types[static_cast<int>(event.kind)]},
                                    {"object", event.object}};
            return stream.send(json::serialize(line) + "\n");
          },
          closing_.get_token());
      if (!ended && ended.error().code == ErrorCode::kOutOfRange) {
        const json::object line{{"type", "ERROR"},
                                {"object", json::parse(status(410, "Expired", "too old").body)}};
        (void)stream.send(json::serialize(line) + "\n");
      }
    };
    return answer;
  }

  std::filesystem::path folder_;
  net::TlsIdentity identity_;
  net::HttpServerOptions server_options_;
  std::shared_ptr<BearerToken> token_;
  ManualClock clock_;
  FakeApi fake_;
  std::mutex mutex_;
  Answer answer_;
  std::stop_source closing_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<HttpApi> api_;
};

TEST_F(HttpApiTest, CreatesReadsChangesAndDeletes) {
  serve();
  connect();
  const auto made = api_->create(kPods, pod("x"));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(*api_->get(kPods + "/x"), *made);
  EXPECT_TRUE(
      api_->patch(kPods + "/x", PatchType::kMerge, {{"metadata", {{"labels", {{"l", "1"}}}}}}));
  const auto patched =
      api_->patch(kPods + "/x", PatchType::kJson,
                  json::parse(R"([{"op":"test","path":"/metadata/labels/l","value":"1"},
                      {"op":"remove","path":"/metadata/labels/l"}])"));
  ASSERT_TRUE(patched.has_value()) << patched.error().message;
  EXPECT_TRUE(api_->replace(kPods + "/x", *patched));
  EXPECT_TRUE(api_->remove(kPods + "/x", {{"gracePeriodSeconds", 0}}));
  EXPECT_FALSE(fake_.get(kPods + "/x"));
}

TEST_F(HttpApiTest, ErrorsHaveTheirCodesAndTheServersWords) {
  serve();
  connect();
  const auto missing = api_->get(kPods + "/x?a=1");
  EXPECT_EQ(code_of(missing), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("GET " + kPods + "/x: "));
  EXPECT_THAT(missing.error().message, HasSubstr("pods \"x\" not found"));
  const json::object first = *api_->create(kPods, pod("x"));
  EXPECT_EQ(code_of(api_->create(kPods, pod("x"))), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(
      api_->patch(kPods + "/x", PatchType::kMerge, {{"metadata", {{"labels", {{"l", "1"}}}}}}));
  EXPECT_EQ(code_of(api_->replace(kPods + "/x", first)), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of(api_->create(kPods, {})), ErrorCode::kInvalidArgument);
  set_answer([](const net::HttpRequest&) { return net::HttpResponse{200, "text/html", "<html>"}; });
  EXPECT_EQ(code_of(api_->get(kPods)), ErrorCode::kDataLoss);
  set_answer([](const net::HttpRequest&) { return net::HttpResponse{503, "text/html", "<html>"}; });
  EXPECT_EQ(code_of(api_->get(kPods)), ErrorCode::kUnavailable);
}

TEST_F(HttpApiTest, ListsPageByPage) {
  serve();
  connect();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(fake_.create(kPods, pod("p" + std::to_string(i))));
  const auto listing = list_all(*api_, kPods, 3);
  ASSERT_TRUE(listing.has_value()) << listing.error().message;
  EXPECT_EQ(listing->items.size(), 7U);
  EXPECT_EQ(fake_.requests().size(), 7U + 3U);
}

TEST_F(HttpApiTest, WatchesAndHearsThatAVersionIsTooOld) {
  serve();
  connect();
  const std::string version(text_at(*api_->get(kPods), "metadata.resourceVersion"));
  ASSERT_TRUE(fake_.create(kPods, pod("x")));
  std::vector<std::string> names;
  const Status enough =
      api_->watch(kPods + "?resourceVersion=" + version, [&](const WatchEvent& event) {
        names.emplace_back(text_at(event.object, "metadata.name"));
        return false;
      });
  EXPECT_TRUE(enough) << enough.error().message;
  EXPECT_EQ(names, std::vector<std::string>{"x"});
  auto running = std::async(std::launch::async, [&] {
    return api_->watch(kPods + "?resourceVersion=" + version, [&](const WatchEvent&) {
      fake_.expire();
      return true;
    });
  });
  EXPECT_EQ(code_of(running.get()), ErrorCode::kOutOfRange);
  EXPECT_EQ(code_of(api_->watch(kPods + "?resourceVersion=" + version,
                                [](const WatchEvent&) { return true; })),
            ErrorCode::kOutOfRange);
}

TEST_F(HttpApiTest, AWatchThatTheServerEndsIsNoFailure) {
  serve();
  connect();
  ASSERT_TRUE(fake_.create(kPods, pod("x")));
  EXPECT_TRUE(api_->watch(kPods, [&](const WatchEvent&) {
    fake_.end_watches();
    return true;
  }));
}

TEST_F(HttpApiTest, AStopEndsAWatchThatIsSilent) {
  serve();
  connect();
  std::stop_source stop;
  auto running = std::async(std::launch::async, [&] {
    return api_->watch(kPods, [](const WatchEvent&) { return true; }, stop.get_token());
  });
  fake_.await_watches(1);
  stop.request_stop();
  EXPECT_EQ(code_of(running.get()), ErrorCode::kCancelled);
}

TEST_F(HttpApiTest, ReadsTextAsItComesUntilThereIsEnough) {
  serve();
  connect();
  set_answer([](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    if (request.path != kPods + "/b/log") return std::nullopt;
    EXPECT_EQ(request.query, "follow=true");
    EXPECT_EQ(request.header("authorization"), "Bearer secret-1");
    net::HttpResponse response;
    response.content_type = "text/plain";
    response.stream = [](net::HttpStream& stream) {
      while (stream.send("line\n")) {
      }
    };
    return response;
  });
  std::string text;
  const Status read = api_->read_text(kPods + "/b/log?follow=true",
                                      [&](std::string_view piece) {
                                        text += piece;
                                        return text.size() < 20;
                                      },
                                      {});
  EXPECT_TRUE(read.has_value());
  EXPECT_THAT(text, ::testing::StartsWith("line\nline\n"));
  const Status none = api_->read_text(kPods + "/c/log", [](std::string_view) { return true; }, {});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound) << none.error().message;
}

TEST_F(HttpApiTest, WaitsAsLongAsAServerWithTooManyRequestsAsks) {
  serve();
  connect();
  std::atomic<int> refused{0};
  set_answer([&](const net::HttpRequest&) -> std::optional<net::HttpResponse> {
    if (refused++ > 0) return std::nullopt;
    net::HttpResponse busy = status(429, "TooManyRequests", "slow down");
    busy.headers["retry-after"] = "7";
    return busy;
  });
  auto asked = std::async(std::launch::async, [&] { return api_->create(kPods, pod("x")); });
  clock_.await_waiters(1);
  EXPECT_EQ(clock_.next_deadline(), clock_.now() + seconds(7));
  clock_.advance(seconds(7));
  EXPECT_TRUE(asked.get().has_value());
  EXPECT_EQ(refused, 2);
}

TEST_F(HttpApiTest, ButNotForEver) {
  serve();
  connect();
  set_answer([](const net::HttpRequest&) {
    net::HttpResponse busy = status(429, "TooManyRequests", "slow down");
    busy.headers["retry-after"] = "3600";
    return busy;
  });
  const auto refused = api_->get(kPods);
  EXPECT_EQ(code_of(refused), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("slow down"));
}

TEST_F(HttpApiTest, AServerThatHangsIsGivenUp) {
  serve();
  connect({.timeout = milliseconds(50), .watch_silence = milliseconds(50)});
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  set_answer([released](const net::HttpRequest&) {
    released.wait();
    return net::HttpResponse{};
  });
  EXPECT_EQ(code_of(api_->get(kPods)), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(api_->watch(kPods, [](const WatchEvent&) { return true; })),
            ErrorCode::kUnavailable);
  const Status read = api_->read_text(kPods + "/b/log", [](std::string_view) { return true; }, {});
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
  release.set_value();
}

TEST_F(HttpApiTest, AServerThatCannotProveWhoItIsHearsNoToken) {
  serve();
  set_answer([](const net::HttpRequest&) {
    ADD_FAILURE() << "a request was sent to somebody unknown";
    return net::HttpResponse{};
  });
  Credentials other = credentials();
  other.target.tls->authorities_pem =
      text_of(net::make_test_identity(folder_, "other", "kubernetes").certificate);
  connect(other);
  const auto refused = api_->get(kPods);
  EXPECT_EQ(code_of(refused), ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("secret-1")));
  Credentials misnamed = credentials();
  misnamed.target.tls->name = "elsewhere";
  connect(misnamed);
  EXPECT_EQ(code_of(api_->get(kPods)), ErrorCode::kPermissionDenied);
}

TEST_F(HttpApiTest, ShowsItsCertificate) {
  const net::TlsIdentity client = net::make_test_identity(folder_, "client", "divvy");
  server_options_.tls->clients = client.certificate;
  serve();
  connect();
  EXPECT_FALSE(api_->get(kPods).has_value()) << "without one";
  Credentials with = credentials();
  with.target.tls->client =
      net::TlsClientIdentity{text_of(client.certificate), text_of(client.key)};
  connect(with);
  const auto got = api_->get(kPods);
  EXPECT_TRUE(got.has_value()) << got.error().message;
}

TEST_F(HttpApiTest, ATokenThatIsReplacedIsUsed) {
  std::ofstream(folder_ / "token") << "secret-0";
  token_ = *BearerToken::from_file(folder_ / "token");
  serve();
  connect();
  EXPECT_EQ(code_of(api_->get(kPods)), ErrorCode::kPermissionDenied);
  std::ofstream(folder_ / "new") << "secret-1";
  std::filesystem::rename(folder_ / "new", folder_ / "token");
  EXPECT_TRUE(api_->get(kPods).has_value());
  // Replaced while the request was under way.
  set_answer([this](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    if (request.header("authorization") != "Bearer secret-0") return std::nullopt;
    std::ofstream(folder_ / "new") << "secret-1";
    std::filesystem::rename(folder_ / "new", folder_ / "token");
    return status(401, "Unauthorized", "expired");
  });
  std::ofstream(folder_ / "old") << "secret-0";
  std::filesystem::rename(folder_ / "old", folder_ / "token");
  EXPECT_TRUE(api_->get(kPods).has_value());
}

TEST_F(HttpApiTest, AMirrorSurvivesTheRestartOfTheServer) {
  serve();
  SystemClock real;
  connect();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> told;
  Mirror mirror(*api_, real, {.path = "/api/v1/pods"}, [&](const ObjectChange& change) {
    const ObjectPtr& any = change.after ? change.after : change.before;
    const std::lock_guard lock(mutex);
    told.push_back((change.after ? "+" : "-") + std::string(text_at(*any, "metadata.name")));
    changed.notify_all();
  });
  ASSERT_TRUE(mirror.await_synced(std::chrono::minutes(2)));
  ASSERT_TRUE(fake_.create(kPods, pod("x")));
  const auto await_told = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return told.size() >= count; });
    return std::exchange(told, {});
  };
  EXPECT_EQ(await_told(1), std::vector<std::string>{"+x"});
  const std::uint16_t port = server_->port();
  stop_server();
  ASSERT_TRUE(fake_.create(kPods, pod("y")));
  ASSERT_TRUE(fake_.remove(kPods + "/x", {}));
  fake_.expire();
  serve(port);
  EXPECT_THAT(await_told(2), ::testing::UnorderedElementsAre("-x", "+y"));
}

TEST_F(HttpApiTest, AConnectionIntoAPodTakesAndGivesMessages) {
  std::vector<std::thread> pods;
  set_answer([&pods](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    if (request.path != kPods + "/x/exec") return std::nullopt;
    if (request.header("authorization") != "Bearer secret-1") {
      return status(403, "Forbidden", "ada may not create pods/exec");
    }
    EXPECT_EQ(request.query, "command=ls");
    EXPECT_EQ(request.header("sec-websocket-protocol"), "v5.channel.k8s.io, v4.channel.k8s.io");
    EXPECT_EQ(request.header("accept"), "*/*") << "a real server answers 406 to any other";
    net::HttpResponse answer;
    answer.upgrade = [&pods](UniqueFd& socket) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      socket = UniqueFd(ends[0]);
      pods.emplace_back([fd = ends[1]] {
        const UniqueFd pod(fd);
        std::array<char, 64> heard{};
        const ssize_t got = ::read(pod.get(), heard.data(), heard.size());
        EXPECT_EQ(std::string(heard.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))),
                  std::string("\0hello", 6));
        const std::string said = "\x01hello";
        EXPECT_EQ(::write(pod.get(), said.data(), said.size()), static_cast<ssize_t>(said.size()));
      });
      net::HttpResponse switching{101, "", ""};
      switching.headers["upgrade"] = "websocket";
      switching.headers["sec-websocket-protocol"] = "v5.channel.k8s.io";
      return switching;
    };
    return answer;
  });
  serve();
  connect();
  auto made = api_->connect(kPods + "/x/exec?command=ls", "v5.channel.k8s.io, v4.channel.k8s.io");
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->protocol(), "v5.channel.k8s.io");
  ASSERT_EQ(::send((*made)->fd(), "\0hello", 6, MSG_NOSIGNAL), 6);
  std::array<char, 64> heard{};
  EXPECT_EQ(::recv((*made)->fd(), heard.data(), heard.size(), 0), 6);
  EXPECT_EQ(std::string(heard.data(), 6), "\x01hello");
  EXPECT_EQ(::recv((*made)->fd(), heard.data(), heard.size(), 0), 0) << "and then the end";
  made->reset();
  for (std::thread& one : pods) one.join();

  token_ = std::make_shared<BearerToken>("wrong");
  connect();
  const auto refused = api_->connect(kPods + "/x/exec?command=ls", "v5.channel.k8s.io");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("ada may not create pods/exec"));
}

}  // namespace
}  // namespace divvy::kube
