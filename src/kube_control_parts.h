// The controller of a cluster, put together: the API server's client, the controller, and the
// server of the webhook. Composition for `divvyd --engine kubernetes`.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/daemon_config.h"
#include "daemon_options.h"
#include "kube/controller.h"
#include "kube/controller_routes.h"
#include "kube/http_api.h"
#include "kube/webhook_routes.h"
#include "net/http.h"

namespace divvy {

class ClusterSide {
 public:
  // `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<ClusterSide>> create(
      const KubeOptions& options, const config::DaemonConfig& config, Clock& clock);
  ~ClusterSide();
  ClusterSide(const ClusterSide&) = delete;
  ClusterSide& operator=(const ClusterSide&) = delete;

  // The rules of a configuration that was read again.
  [[nodiscard]] Status change(const config::DaemonConfig& config);
  // The files of the certificate are read again; the old one stays where the new one is no good.
  void renew_certificate() const;
  // "leads, 12 pods, 3 waiting."
  [[nodiscard]] std::string status() const;

 private:
  ClusterSide() = default;
  [[nodiscard]] Status trust_ourselves(const std::string& space);
  [[nodiscard]] Status serve_webhook(const KubeOptions& options);
  [[nodiscard]] Status serve_metrics(const config::DaemonConfig& config);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request) const;
  [[nodiscard]] net::HttpResponse metrics(const net::HttpRequest& request) const;

  std::unique_ptr<kube::HttpApi> reading_;
  std::unique_ptr<kube::HttpApi> writing_;
  std::shared_ptr<kube::AdmissionPolicy> policy_;
  bool no_preemption_ = false;   // whatever the settings say
  boost::json::object account_;  // of the pod, with which its lease goes; empty: it is no pod
  std::unique_ptr<kube::Controller> controller_;
  std::unique_ptr<kube::ControllerRoutes> routes_;
  std::unique_ptr<kube::WebhookRoutes> webhook_;
  // Last: they call all of the above.
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<net::HttpServer> metrics_server_;
};

}  // namespace divvy
