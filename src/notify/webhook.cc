#include "notify/webhook.h"

#include "base/base64.h"
#include "net/http.h"

namespace divvy::notify {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kLargestAnswer = std::size_t{64} << 10U;

}  // namespace

Result<int> post(const model::WebhookUrl& url, const Message& message) {
  net::HttpTarget target{.socket = {}, .network = net::TcpAddress{url.host, url.port}};
  if (url.secure) target.tls = net::TlsTrust{.authorities = {}, .name = {}};
  target.server = "webhook";
  target.largest_answer = kLargestAnswer;
  net::HttpRequest request{
      .method = "POST", .path = url.path, .query = url.query, .body = message.body};
  request.headers["host"] = url.authority();
  request.headers["content-type"] = "application/json";
  request.headers["user-agent"] = "divvyd";
  request.headers["idempotency-key"] = message.id;
  if (!url.user_info.empty()) {
    request.headers["authorization"] = "Basic " + encode_base64(url.user_info);
  }
  DIVVY_TRY(answer, net::http_request(target, request, kPatience));
  return answer.status;
}

}  // namespace divvy::notify
