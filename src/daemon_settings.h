// What the parts of the daemon are told of its configuration. Composition: the room `config` knows
// none of them, and none of them knows it.
#pragma once

#include "api/metrics.h"
#include "base/result.h"
#include "config/daemon_config.h"
#include "container_parts.h"
#include "control_parts.h"
#include "health/health_settings.h"
#include "ledger/slices.h"
#include "run/podman_runtime.h"

namespace divvy {

[[nodiscard]] model::GpuMode default_mode(const config::DaemonConfig& config);
[[nodiscard]] Result<api::MetricsOptions> metrics_options_of(const config::DaemonConfig& config);

[[nodiscard]] ContainerSettings container_settings_of(const config::DaemonConfig& config);
[[nodiscard]] health::HealthSettings health_settings_of(const config::DaemonConfig& config);
[[nodiscard]] run::PodmanSettings podman_settings_of(const config::DaemonConfig& config);
[[nodiscard]] ControlSettings control_settings_of(const config::DaemonConfig& config);

}  // namespace divvy
