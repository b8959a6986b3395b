#include "machine_parts.h"

#include "base/log.h"
#include "container_parts.h"
#include "daemon_settings.h"
#include "driver.h"
#include "nvml/inventory.h"
#include "sys/privileges.h"
#include "sys/process.h"

namespace divvy {
namespace {

void on_mps_death(const model::GpuUuid& gpu, const Status& restarted) {
  if (restarted) {
    log_warning("MPS daemon died and was started again", {{"gpu", gpu}});
  } else {
    log_error("MPS daemon died", {{"gpu", gpu}, {"reason", restarted.error().message}});
  }
}

}  // namespace

MachineSide::MachineSide(share::Keeper keeper, Clock& clock)
    : keeper_(std::move(keeper)), clock_(clock) {}

Result<std::unique_ptr<MachineSide>> MachineSide::create(const config::DaemonConfig& config,
                                                         Clock& clock) {
  DIVVY_TRY(keeper, share::Keeper::create());
  std::unique_ptr<MachineSide> made(new MachineSide(std::move(keeper), clock));
  DIVVY_RETURN_IF_ERROR(made->start(config));
  return made;
}

Status MachineSide::start(const config::DaemonConfig& config) {
  DIVVY_TRY(library, open_driver());
  library_ = std::move(library);
  // After the driver, which may load its module at the first call, and before any thread, because
  // each has privileges of its own.
  if (config.privileges.drop) DIVVY_RETURN_IF_ERROR(sys::drop_privileges(config.privileges.keep));
  DIVVY_TRY(inventory, nvml::take_inventory(*library_));
  disk_ = sys::open_disk(config.folders.state);
  DIVVY_TRY(ledger, ledger::Ledger::open(*disk_, sys::boot_id()));
  ledger_ = std::move(ledger);
  arbiter_ = std::make_unique<share::Arbiter>(clock_);
  share::Mps::Options mps;
  mps.folder = config.folders.run / "mps";
  mps.on_death = on_mps_death;
  mps_ = std::make_unique<share::Mps>(std::move(mps));
  if (config.cdi.enabled) {
    containers_ = make_container_devices(inventory, container_settings_of(config));
  }
  DIVVY_TRY(tenants, agent::Tenants::create({.library = *library_,
                                             .node = std::move(inventory),
                                             .arbiter = *arbiter_,
                                             .keeper = keeper_,
                                             .clock = clock_,
                                             .run_folder = config.folders.run,
                                             .ledger = *ledger_,
                                             .mps = mps_.get(),
                                             .containers = containers_.get(),
                                             .environment = simulation_environment()}));
  tenants_ = std::move(tenants);
  mps_->stop_unused();
  DIVVY_TRY(health,
            agent::HealthService::create({.settings = health_settings_of(config),
                                          .tenants = *tenants_,
                                          .clock = clock_,
                                          .cordons = ledger_->cordons(),
                                          .keep_cordon = [this](const auto& gpu, auto cordon) {
                                            return ledger_->set_cordon(gpu, std::move(cordon));
                                          }}));
  health_ = std::move(health);
  run::MachineRuntime::Options members;
  members.members = config.folders.state / "members";
  members.podman = podman_settings_of(config);
  DIVVY_TRY(runtime, run::MachineRuntime::create(std::move(members), clock_));
  runtime_ = std::move(runtime);
  DIVVY_TRY(local, agent::LocalAgent::create({.tenants = *tenants_,
                                              .runtime = *runtime_,
                                              .health = health_.get(),
                                              .shim = installation() / "lib/divvy/libdivvy.so",
                                              .environment = driver_environment(),
                                              .podman = podman_settings_of(config),
                                              .keeps_privileges = !config.privileges.drop,
                                              .version = DIVVY_VERSION}));
  agent_ = std::move(local);
  return {};
}

api::MetricsSources MachineSide::metrics() const {
  return {.tenants = *tenants_,
          .arbiter = *arbiter_,
          .samples = health_->samples(),
          .clock = clock_,
          .version = DIVVY_VERSION,
          .health = [this] { return health_->all(); },
          .ledger_writes = [this] { return ledger_->writes(); },
          .ledger_writable =
              [this] {
                const auto trouble = ledger_->trouble();
                return trouble ? Status(err(*trouble)) : Status();
              }};
}

}  // namespace divvy
