// What the controller serves besides the webhook: why a pod waits. For pods that the caller may
// get, as Kubernetes itself says of the caller's token. Called from many threads at once.
//
//   GET /v1/pods/NAMESPACE/NAME/explain, with "authorization: Bearer TOKEN"
#pragma once

#include <string>
#include <string_view>

#include "kube/api_server.h"
#include "kube/controller.h"
#include "net/http.h"

namespace divvy::kube {

class ControllerRoutes {
 public:
  // Both outlive it. `api` is asked who a caller is (TokenReview) and what they may see
  // (SubjectAccessReview).
  ControllerRoutes(Controller& controller, ApiServer& api) : controller_(controller), api_(api) {}

  [[nodiscard]] static bool serves(std::string_view path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request) const;

 private:
  [[nodiscard]] Status check_caller(const net::HttpRequest& request, const std::string& space,
                                    const std::string& name) const;

  Controller& controller_;
  ApiServer& api_;
};

}  // namespace divvy::kube
