// The webhook's HTTP side: POST /mutate and POST /validate, and GET /healthz for probes. The
// controller gives it to a net::HttpServer with TLS, for the API server speaks nothing else to
// webhooks. Called from many threads at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "kube/admission.h"
#include "net/http.h"

namespace divvy::kube {

class WebhookRoutes {
 public:
  // A review holds a pod twice when it changes, and Kubernetes keeps objects of up to 1.5 MiB: for
  // HttpServerOptions::max_body.
  static constexpr std::size_t kLargestReview = std::size_t{8} << 20U;

  // Asked for each review, so that a policy can change while it serves.
  using CurrentPolicy = std::function<std::shared_ptr<const AdmissionPolicy>()>;

  explicit WebhookRoutes(CurrentPolicy policy, ClaimNames claim_names = random_claim_name)
      : policy_(std::move(policy)), claim_names_(std::move(claim_names)) {}

  [[nodiscard]] static bool serves(std::string_view path);

  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request) const;

 private:
  CurrentPolicy policy_;
  ClaimNames claim_names_;
};

}  // namespace divvy::kube
