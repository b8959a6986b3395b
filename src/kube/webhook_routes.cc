#include "kube/webhook_routes.h"

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

net::HttpResponse problem(int status, std::string_view message) {
  return {.status = status,
          .body = boost::json::serialize(boost::json::object{{"error", message}})};
}

}  // namespace

bool WebhookRoutes::serves(std::string_view path) {
  return path == "/mutate" || path == "/validate" || path == "/healthz";
}

net::HttpResponse WebhookRoutes::handle(const net::HttpRequest& request) const {
  if (!serves(request.path)) return problem(404, "there is no such path");
  const bool probe = request.path == "/healthz";
  if (request.method != (probe ? "GET" : "POST")) {
    net::HttpResponse response = problem(405, "this path takes another method");
    response.headers["allow"] = probe ? "GET" : "POST";
    return response;
  }
  if (probe) return {.content_type = "text/plain", .body = "ok\n"};
  const std::shared_ptr<const AdmissionPolicy> policy = policy_();
  auto answer = request.path == "/mutate" ? review_mutation(request.body, *policy, claim_names_)
                                          : review_validation(request.body, *policy);
  if (!answer) return problem(400, answer.error().message);
  return {.body = *std::move(answer)};
}

}  // namespace divvy::kube
