#include <sys/stat.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "net/http_testing.h"
#include "net/tls_testing.h"

namespace divvy::net {
namespace {

class HttpTls : public HttpServerTest {
 protected:
  void SetUp() override {
    options_.tls = make_test_identity(folder_, "server", "gpu.example");
    options_.patience = std::chrono::seconds(10);
  }
  void TearDown() override { server_.reset(); }

  void serve_hello() {
    serve([](const HttpRequest& request, const Caller& caller) {
      EXPECT_EQ(caller.uid(), Caller::kNobody);
      HttpResponse answer{200, "text/plain", "hello " + request.body, {}, {}};
      if (request.path == "/stream") {
        answer.stream = [](HttpStream& stream) {
          EXPECT_TRUE(stream.send("one "));
          EXPECT_TRUE(stream.send("two"));
        };
      }
      return answer;
    });
  }

  [[nodiscard]] HttpTarget trusting(const std::filesystem::path& authorities,
                                    const std::string& name = {}) const {
    HttpTarget secure = target();
    secure.tls = TlsTrust{authorities, name};
    return secure;
  }
  [[nodiscard]] static Result<HttpResponse> post(const HttpTarget& target) {
    return http_request(target, {.method = "POST", .path = "/", .query = {}, .body = "there"},
                        std::chrono::seconds(30));
  }

  TemporaryFolder folder_;
};

TEST_F(HttpTls, CarriesRequestsAndStreams) {
  serve_hello();
  const HttpTarget trusted = trusting(folder_ / "server.pem");
  const auto answer = post(trusted);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->body, "hello there");
  std::string streamed;
  ASSERT_TRUE(http_follow(trusted, {.method = "GET", .path = "/stream", .query = {}, .body = {}},
                          std::chrono::seconds(30), [&](std::string_view piece) {
                            streamed += piece;
                            return true;
                          }));
  EXPECT_EQ(streamed, "one two");
  EXPECT_TRUE(post(trusting(folder_ / "server.pem", "gpu.example")).has_value());
}

TEST_F(HttpTls, AnUnverifiedServerGetsNoRequest) {
  serve([](const HttpRequest&, const Caller&) {
    ADD_FAILURE() << "a request was sent to somebody unknown";
    return HttpResponse{};
  });
  const TlsIdentity other = make_test_identity(folder_, "other", "gpu.example");
  for (const HttpTarget& target :
       {trusting(other.certificate), trusting(folder_ / "server.pem", "elsewhere.example")}) {
    const auto answer = post(target);
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, ErrorCode::kPermissionDenied) << answer.error().message;
  }
}

TEST_F(HttpTls, RefusesPlaintext) {
  serve([](const HttpRequest&, const Caller&) {
    ADD_FAILURE() << "a request in the clear was answered";
    return HttpResponse{};
  });
  EXPECT_FALSE(post(target()).has_value());
}

TEST_F(HttpTls, UnfinishedHandshakesDelayNobody) {
  serve_hello();
  const int silent = say("");
  const int half = say("\x16\x03\x01");
  EXPECT_TRUE(post(trusting(folder_ / "server.pem")).has_value());
  ::close(silent);
  ::close(half);
}

TEST_F(HttpTls, ANewCertificateIsTakenWithoutARestart) {
  serve_hello();
  const HttpTarget before = trusting(folder_ / "server.pem");
  std::filesystem::copy_file(folder_ / "server.pem", folder_ / "before.pem");
  make_test_identity(folder_, "server", "gpu.example");
  ASSERT_TRUE(server_->reload_tls());
  EXPECT_TRUE(post(trusting(folder_ / "server.pem")).has_value());
  EXPECT_FALSE(post(trusting(folder_ / "before.pem")).has_value());
  std::ofstream(folder_ / "server.pem") << "nothing";
  EXPECT_FALSE(server_->reload_tls());
  EXPECT_EQ(post(target()).has_value(), false);
}

TEST_F(HttpTls, FilesThatAreNoGoodAreNamed) {
  const auto refusal = [this] {
    const auto made = HttpServer::create(
        options_, [](const HttpRequest&, const Caller&) { return HttpResponse{}; });
    return made ? std::string("it was taken") : made.error().message;
  };
  options_.network = TcpAddress{"127.0.0.1", 0};
  const TlsIdentity good = *options_.tls;
  options_.tls->certificate = folder_ / "nothing.pem";
  EXPECT_NE(refusal().find("nothing.pem"), std::string::npos) << refusal();
  options_.tls = good;
  options_.tls->key = make_test_identity(folder_, "other", "x").key;
  EXPECT_NE(refusal().find("other.key"), std::string::npos) << refusal();
  options_.tls = good;
  ASSERT_EQ(::chmod(good.key.c_str(), 0644), 0);
  EXPECT_NE(refusal().find("others may read"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace divvy::net
