#include "notify/webhook.h"

#include <gtest/gtest.h>

#include "net/http_testing.h"

namespace divvy::notify {
namespace {

class Webhook : public net::HttpServerTest {
 protected:
  // The address of the receiver.
  [[nodiscard]] model::WebhookUrl url(const std::string& user_info, const std::string& rest) const {
    return *model::WebhookUrl::parse(
        fmt::format("http://{}127.0.0.1:{}{}", user_info, server_->port(), rest));
  }
};

TEST_F(Webhook, IsPostedADocumentWithAnId) {
  net::HttpRequest seen;
  serve([&seen](const net::HttpRequest& request, const net::Caller&) {
    seen = request;
    return net::HttpResponse{.status = 202, .body = ""};
  });
  EXPECT_EQ(post(url("ada:a%20b@", "/x/y?key=1"), {.id = "divvy-7-1", .body = "{\"id\":7}"}), 202);
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.path, "/x/y");
  EXPECT_EQ(seen.query, "key=1");
  EXPECT_EQ(seen.body, "{\"id\":7}");
  EXPECT_EQ(seen.header("content-type"), "application/json");
  EXPECT_EQ(seen.header("idempotency-key"), "divvy-7-1");
  EXPECT_EQ(seen.header("authorization"), "Basic YWRhOmEgYg==");
}

TEST_F(Webhook, ARedirectIsNotFollowed) {
  int asked = 0;
  serve([&](const net::HttpRequest& /*request*/, const net::Caller&) {
    ++asked;
    net::HttpResponse answer{.status = 307, .body = ""};
    answer.headers["location"] = url("", "/elsewhere").origin() + "/elsewhere";
    return answer;
  });
  EXPECT_EQ(post(url("", "/"), {.id = "a", .body = "{}"}), 307);
  EXPECT_EQ(asked, 1);
}

TEST_F(Webhook, AnAnswerWithoutEndIsGivenUp) {
  serve([](const net::HttpRequest& /*request*/, const net::Caller&) {
    return net::HttpResponse{.body = std::string(1U << 20U, 'x')};
  });
  const auto status = post(url("s%40cret:s%40cret@", "/secret?secret"), {.id = "a", .body = "{}"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message.find("cret"), std::string::npos) << status.error().message;
}

TEST_F(Webhook, NobodyThereIsAnErrorWithoutTheSecretsOfTheAddress) {
  serve([](const net::HttpRequest&, const net::Caller&) { return net::HttpResponse(); });
  const model::WebhookUrl nobody = url("ada:secret@", "/secret?secret");
  server_.reset();
  const auto status = post(nobody, {.id = "a", .body = "{}"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message.find("secret"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace divvy::notify
