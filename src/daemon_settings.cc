#include "daemon_settings.h"

namespace divvy {

node::GpuMode default_mode(const config::DaemonConfig& config) {
  return config.sharing.mode == config::SharingMode::kMps ? node::GpuMode::kMps
                                                          : node::GpuMode::kTimeslice;
}

Result<api::MetricsOptions> metrics_options_of(const config::DaemonConfig& config) {
  api::MetricsOptions options;
  DIVVY_TRY(listen, api::parse_metrics_address(
                        config.metrics.address.empty() ? "off" : config.metrics.address));
  options.listen = std::move(listen);
  options.old_hostname_label = config.metrics.hostname_label == config::HostnameLabel::kBoth;
  return options;
}

}  // namespace divvy
