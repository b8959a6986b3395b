// What the parts of the daemon are told of its configuration. Composition: the room `config` knows
// none of them, and none of them knows it.
#pragma once

#include "api/metrics.h"
#include "base/result.h"
#include "config/daemon_config.h"
#include "container_parts.h"
#include "node/health_settings.h"
#include "node/slices.h"
#include "queue_parts.h"

namespace divvy {

[[nodiscard]] node::GpuMode default_mode(const config::DaemonConfig& config);
[[nodiscard]] Result<api::MetricsOptions> metrics_options_of(const config::DaemonConfig& config);

[[nodiscard]] ContainerSettings container_settings_of(const config::DaemonConfig& config);
[[nodiscard]] node::HealthSettings health_settings_of(const config::DaemonConfig& config);
[[nodiscard]] QueueSettings queue_settings_of(const config::DaemonConfig& config);

}  // namespace divvy
