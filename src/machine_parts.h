// The machine's side of the daemon, put together: the driver, the ledger, the arbiter, the GPUs'
// health, the members, and the agent over them. Composition for `divvyd`.
#pragma once

#include <memory>
#include <optional>

#include "agent/health_service.h"
#include "agent/local_agent.h"
#include "agent/tenants.h"
#include "api/metrics.h"
#include "base/clock.h"
#include "base/result.h"
#include "config/daemon_config.h"
#include "inject/container_devices.h"
#include "ledger/ledger.h"
#include "run/machine_runtime.h"
#include "share/arbiter.h"
#include "share/keeper.h"
#include "share/mps.h"
#include "sys/disk.h"

namespace divvy {

class MachineSide {
 public:
  // Before any thread exists: a part of it is a fork of this process, and privileges are given up
  // here. Finds again whom it had. `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<MachineSide>> create(
      const config::DaemonConfig& config, Clock& clock);
  MachineSide(const MachineSide&) = delete;
  MachineSide& operator=(const MachineSide&) = delete;

  [[nodiscard]] agent::LocalAgent& agent() { return *agent_; }
  [[nodiscard]] const model::Node& node() const { return tenants_->node(); }
  [[nodiscard]] std::size_t tenants() const { return tenants_->all().size(); }
  // Null: this daemon makes no devices for containers.
  [[nodiscard]] inject::ContainerDevices* containers() { return containers_.get(); }
  // Without what only the queue knows.
  [[nodiscard]] api::MetricsSources metrics() const;

 private:
  MachineSide(share::Keeper keeper, Clock& clock);
  [[nodiscard]] Status start(const config::DaemonConfig& config);

  share::Keeper keeper_;
  Clock& clock_;
  std::unique_ptr<nvml::Library> library_;
  std::unique_ptr<sys::Disk> disk_;
  std::unique_ptr<ledger::Ledger> ledger_;
  std::unique_ptr<share::Arbiter> arbiter_;
  std::unique_ptr<share::Mps> mps_;
  std::unique_ptr<inject::ContainerDevices> containers_;
  std::unique_ptr<agent::Tenants> tenants_;
  std::unique_ptr<agent::HealthService> health_;
  std::unique_ptr<run::MachineRuntime> runtime_;
  std::unique_ptr<agent::LocalAgent> agent_;
};

}  // namespace divvy
