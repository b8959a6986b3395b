#include "kube_engines.h"

#include <utility>

#include "api/metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon_loop.h"
#include "daemon_settings.h"
#include "kube_control_parts.h"
#include "kube_node_parts.h"
#include "machine_parts.h"

namespace divvy {

Status serve_kubernetes_node(const Started& started, const KubeOptions& options) {
  const config::DaemonConfig& config = started.settings.now();
  SystemClock clock;
  DIVVY_TRY(machine, MachineSide::create(config, clock));
  DIVVY_TRY(node, KubeNodeSide::create(options, config, *machine, clock));
  DIVVY_TRY(metrics_options, metrics_options_of(config));
  api::MetricsSources sources = machine->metrics();
  sources.pods = [&node] { return node->pods(); };
  const api::MetricsRoutes metrics(std::move(sources), metrics_options);
  const auto metrics_server = api::serve_metrics(metrics, metrics_options);
  log_info("node agent is ready", {{"version", DIVVY_VERSION},
                                   {"node", options.node_name},
                                   {"gpus", machine->node().gpus().size()},
                                   {"simulated", machine->node().simulated()}});
  started.background.tell({}, 0);
  const int signal = run_daemon_loop(
      started.signals, started.supervisor, started.settings,
      {.status = [&machine] { return fmt::format("{} tenants.", machine->tenants()); },
       .reload = [] {},
       .upkeep = [] {}});
  log_info("node agent ends", {{"signal", signal}});
  return {};
}

Status serve_cluster(const Started& started, const KubeOptions& options) {
  SystemClock clock;
  DIVVY_TRY(cluster, ClusterSide::create(options, started.settings.now(), clock));
  started.settings.on_change([&cluster](const config::DaemonConfig& now) {
    configure_log(now.log.level, now.log.json ? LogFormat::kJson : LogFormat::kText);
    const Status changed = cluster->change(now);
    if (!changed) log_error("queue keeps its rules", {{"reason", changed.error().message}});
  });
  log_info("controller is ready", {{"version", DIVVY_VERSION}, {"namespace", options.space}});
  started.background.tell({}, 0);
  const int signal = run_daemon_loop(started.signals, started.supervisor, started.settings,
                                     {.status = [&cluster] { return cluster->status(); },
                                      .reload = [&cluster] { cluster->renew_certificate(); },
                                      .upkeep = [] {}});
  log_info("controller ends", {{"signal", signal}});
  return {};
}

}  // namespace divvy
