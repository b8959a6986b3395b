#include "kube/webhook_routes.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "kube/admission_testing.h"
#include "kube/pod_testing.h"
#include "net/tls_testing.h"

namespace divvy::kube {
namespace {

using testing::answer_of;
using testing::pod_of;
using testing::review_of;

WebhookRoutes routes() {
  return WebhookRoutes([] { return std::make_shared<const AdmissionPolicy>(); },
                       [] { return "divvy-aaaaaaaaaaaaaaaaaaaa"; });
}

net::HttpResponse ask(std::string method, std::string path, std::string body = {}) {
  return routes().handle({std::move(method), std::move(path), {}, std::move(body)});
}

TEST(WebhookRoutes, AnswersReviews) {
  const std::string review = review_of(pod_of({{"nvidia.com/gpu", "1"}}));
  const net::HttpResponse answer = ask("POST", "/mutate", review);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_FALSE(answer_of(answer.body).patch.empty());
  EXPECT_TRUE(answer_of(ask("POST", "/validate", review).body).allowed);
}

TEST(WebhookRoutes, RefusesWhatIsNoReview) {
  EXPECT_EQ(ask("POST", "/mutate", "nonsense").status, 400);
  EXPECT_EQ(ask("POST", "/validate", "").status, 400);
  EXPECT_EQ(ask("GET", "/mutate").status, 405);
  EXPECT_EQ(ask("POST", "/healthz").status, 405);
  EXPECT_EQ(ask("POST", "/v1/jobs").status, 404);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
}

TEST(WebhookRoutes, AreServedOverTls) {
  std::string folder = (std::filesystem::temp_directory_path() / "divvy-hook-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  net::HttpServerOptions options;
  options.network = net::TcpAddress{"127.0.0.1", 0};
  options.tls = net::make_test_identity(folder, "server", "divvy.divvy-system.svc");
  options.max_body = WebhookRoutes::kLargestReview;
  const WebhookRoutes hook = routes();
  auto server = net::HttpServer::create(
      options,
      [&](const net::HttpRequest& request, const net::Caller&) { return hook.handle(request); });
  ASSERT_TRUE(server.has_value()) << server.error().message;
  net::HttpTarget target;
  target.network = net::TcpAddress{"127.0.0.1", (*server)->port()};
  target.tls =
      net::TlsTrust{std::filesystem::path(folder) / "server.pem", "divvy.divvy-system.svc"};
  // Larger than what a server takes that was not told of reviews.
  const std::string note(std::size_t{2} << 20U, 'x');
  const auto answer = net::http_request(
      target,
      {"POST", "/mutate", {}, review_of(pod_of({{"nvidia.com/gpu", "1"}}, {{"note", note}}))},
      std::chrono::seconds(60));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_FALSE(answer_of(answer->body).patch.empty());
  server->reset();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace divvy::kube
