// `divvyd`: the daemon of a machine with GPUs. Composition only: the parts are made here in the
// order in which they need each other, and go in the opposite order.
#include <signal.h>

#include <filesystem>
#include <string>
#include <variant>

#include "agent/agents.h"
#include "agent/local_agent.h"
#include "api/metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "child_modes.h"
#include "container_parts.h"
#include "daemon_loop.h"
#include "daemon_options.h"
#include "daemon_settings.h"
#include "driver.h"
#include "net/http.h"
#include "net/local_paths.h"
#include "share/arbiter.h"
#include "agent/gpu_care.h"
#include "sys/daemon.h"
#include "nvml/inventory.h"
#include "share/keeper.h"
#include "ledger/ledger.h"
#include "share/mps_mode.h"
#include "sys/privileges.h"
#include "run/machine_runtime.h"
#include "sys/supervisor.h"
#include "agent/tenants.h"
#include "queue_parts.h"

namespace {

namespace fs = std::filesystem;
using namespace divvy;

void on_mps_death(const model::GpuUuid& gpu, const Status& restarted) {
  if (restarted) {
    log_warning("MPS daemon died and was started again", {{"gpu", gpu}});
  } else {
    log_error("MPS daemon died", {{"gpu", gpu}, {"reason", restarted.error().message}});
  }
}

void apply_settings(config::LiveConfig& settings, QueueHouse& queue) {
  settings.on_change([&queue](const config::DaemonConfig& now) {
    configure_log(now.log.level, now.log.json ? LogFormat::kJson : LogFormat::kText);
    queue.dispatcher().set_default_mode(default_mode(now));
    const auto given =
        sys::give_socket(net::api_socket(now.folders.run), now.socket.mode, now.socket.group);
    if (!given) log_error("socket keeps its rights", {{"reason", given.error().message}});
    const Status changed = queue.change(queue_settings_of(now));
    if (!changed) log_error("queue keeps its rules", {{"reason", changed.error().message}});
  });
}

// Everything between "the lock is ours" and the signal to end.
Status serve(config::LiveConfig& settings, sys::Background& background,
             const sys::Supervisor& supervisor, const sigset_t& signals) {
  const config::DaemonConfig& config = settings.now();
  const fs::path run = config.folders.run;
  // Before any thread: it is a fork of this process.
  DIVVY_TRY(keeper, share::Keeper::create());
  DIVVY_TRY(library, open_driver());
  // After the driver, which may load its module at the first call, and before any thread, because
  // each has privileges of its own.
  if (config.privileges.drop) DIVVY_CHECK_OK(sys::drop_privileges(config.privileges.keep));
  DIVVY_TRY(inventory, nvml::take_inventory(*library));
  const auto disk = sys::open_disk(config.folders.state);
  DIVVY_TRY(ledger, ledger::Ledger::open(*disk, sys::boot_id()));
  SystemClock clock;
  share::Arbiter arbiter(clock);
  share::Mps mps({.folder = run / "mps", .control = {}, .on_death = on_mps_death});
  const auto containers = config.cdi.enabled
                              ? make_container_devices(inventory, container_settings_of(config))
                              : nullptr;
  DIVVY_TRY(tenants, agent::Tenants::create({.library = *library,
                                            .node = std::move(inventory),
                                            .arbiter = arbiter,
                                            .keeper = keeper,
                                            .clock = clock,
                                            .run_folder = run,
                                            .ledger = *ledger,
                                            .prepare_mps = share::prepare_mps(mps),
                                            .leave_mps = share::leave_mps(mps),
                                            .containers = containers.get(),
                                            .environment = simulation_environment()}));
  mps.stop_unused();
  DIVVY_TRY(care, agent::GpuCare::create({.settings = health_settings_of(config),
                                         .tenants = *tenants,
                                         .clock = clock,
                                         .cordons = ledger->cordons(),
                                         .keep_cordon = [&ledger](const auto& gpu, auto cordon) {
                                           return ledger->set_cordon(gpu, std::move(cordon));
                                         }}));
  run::MachineRuntime::Options members;
  members.members = config.folders.state / "members";
  members.podman = podman_settings_of(config);
  DIVVY_TRY(runtime, run::MachineRuntime::create(std::move(members), clock));
  DIVVY_TRY(local, agent::LocalAgent::create({.tenants = *tenants,
                                              .runtime = *runtime,
                                              .care = care.get(),
                                              .shim = installation() / "lib/divvy/libdivvy.so",
                                              .environment = driver_environment(),
                                              .podman = podman_settings_of(config),
                                              .keeps_privileges = !config.privileges.drop,
                                              .version = DIVVY_VERSION}));
  const agent::Agents agents({local.get()});
  DIVVY_TRY(queue, QueueHouse::create(agents, clock, queue_settings_of(config)));
  DIVVY_TRY(metrics_options, metrics_options_of(config));
  const api::MetricsRoutes metrics({.tenants = *tenants,
                                    .arbiter = arbiter,
                                    .samples = care->samples(),
                                    .clock = clock,
                                    .version = DIVVY_VERSION,
                                    .health = [&care] { return care->all(); },
                                    .ledger_writes = [&ledger] { return ledger->writes(); },
                                    .ledger_writable =
                                        [&ledger] {
                                          const auto trouble = ledger->trouble();
                                          return trouble ? Status(err(*trouble)) : Status();
                                        },
                                    .waiting = [&queue] { return queue->dispatcher().waiting(); },
                                    .queue = [&queue] { return queue->load(); },
                                    .passes = [&queue] { return queue->passes(); }},
                                   metrics_options);
  const auto metrics_server = api::serve_metrics(metrics, metrics_options);
  queue->dispatcher().set_default_mode(default_mode(config));
  net::HttpServerOptions server_options;
  server_options.socket = net::api_socket(run);
  // A team and its scripts at once; a thread that waits costs little.
  server_options.max_connections = 512;
  server_options.max_streams = 256;
  server_options.max_per_caller = 128;
  server_options.max_for_operators = 64;
  server_options.mode = config.socket.group.empty() ? config.socket.mode : 0600;
  DIVVY_TRY(server,
            net::HttpServer::create(server_options, [&](const auto& sent, const auto& caller) {
              return queue->handle(sent, caller);
            }));
  DIVVY_CHECK_OK(sys::give_socket(server_options.socket, config.socket.mode, config.socket.group));
  apply_settings(settings, *queue);
  log_info("divvyd is ready", {{"version", DIVVY_VERSION},
                               {"run", run.string()},
                               {"gpus", tenants->node().gpus().size()},
                               {"simulated", tenants->node().simulated()}});
  background.tell({}, 0);
  const int signal = run_daemon_loop(
      signals, supervisor, settings,
      {.status =
           [&tenants, &queue] {
             return fmt::format("{} GPUs, {} tenants, {} waiting.", tenants->node().gpus().size(),
                                tenants->all().size(), queue->dispatcher().waiting());
           },
       .reload = [&queue] { queue->renew_certificate(); },
       .upkeep = [&queue] { queue->tidy(); }});
  log_info("divvyd ends", {{"signal", signal}});
  return {};
}

int run_daemon(DaemonOptions options) {
  const config::FoldersConfig folders = options.settings.now().folders;
  const sys::Supervisor supervisor = sys::Supervisor::from_environment();
  sys::Background background;
  const auto fail = [&background](const Error& error) {
    const int status = error.code == ErrorCode::kAlreadyExists ? 3 : 1;
    background.tell(err(error), status);
    return status;
  };
  if (const Status made = sys::make_folders(folders.run, folders.state); !made) {
    return fail(made.error());
  }
  if (options.background) {
    auto entered = sys::Background::enter(folders.state / "divvyd.log");
    if (!entered) return fail(entered.error());
    background = *std::move(entered);
  }
  const auto lock = sys::lock_run_folder(folders.run);
  if (!lock) return fail(lock.error());
  const auto ledger_lock = sys::lock_state_folder(folders.state);
  if (!ledger_lock) return fail(ledger_lock.error());

  if (!options.restore.empty()) {
    const Status restored = QueueHouse::restore(folders.state, options.restore);
    if (!restored) return fail(restored.error());
    log_info("the store is what it was in the backup", {{"file", options.restore.string()}});
    return 0;
  }
  const sigset_t signals = block_loop_signals();
  ::signal(SIGPIPE, SIG_IGN);
  sys::raise_descriptor_limit();
  sys::share_one_heap();
  const Status served = serve(options.settings, background, supervisor, signals);
  return served ? 0 : fail(served.error());
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = run_as_child(argc, argv)) return *status;
  auto parsed = parse_daemon_options(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  auto& options = std::get<DaemonOptions>(parsed);
  const config::LogConfig& log = options.settings.now().log;
  configure_log(log.level, log.json ? LogFormat::kJson : LogFormat::kText);
  return run_daemon(std::move(options));
}
