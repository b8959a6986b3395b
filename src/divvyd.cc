// `divvyd`: the daemon of a machine with GPUs. Composition only: the parts are made here in the
// order in which they need each other, and go in the opposite order.
#include <signal.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/agent_server.h"
#include "agent/agents.h"
#include "agent_process.h"
#include "api/metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "child_modes.h"
#include "control_parts.h"
#include "daemon_loop.h"
#include "daemon_options.h"
#include "daemon_settings.h"
#include "kube_engines.h"
#include "machine_parts.h"
#include "net/http.h"
#include "net/local_paths.h"
#include "sys/daemon.h"
#include "sys/supervisor.h"

namespace {

using namespace divvy;

void apply_settings(config::LiveConfig& settings, ControlSide& queue) {
  settings.on_change([&queue](const config::DaemonConfig& now) {
    configure_log(now.log.level, now.log.json ? LogFormat::kJson : LogFormat::kText);
    queue.dispatcher().set_default_mode(default_mode(now));
    const auto given =
        sys::give_socket(net::api_socket(now.folders.run), now.socket.mode, now.socket.group);
    if (!given) log_error("socket keeps its rights", {{"reason", given.error().message}});
    const Status changed = queue.change(control_settings_of(now));
    if (!changed) log_error("queue keeps its rules", {{"reason", changed.error().message}});
  });
}

net::HttpServerOptions socket_options(const config::DaemonConfig& config) {
  net::HttpServerOptions options;
  options.socket = net::api_socket(config.folders.run);
  // A team and its scripts at once; a thread that waits costs little.
  options.max_connections = 1024;
  options.max_per_caller = 256;
  // Each connection to a port of a job is one.
  options.max_streams = 512;
  options.max_for_operators = 64;
  options.mode = config.socket.group.empty() ? config.socket.mode : 0600;
  return options;
}

// `divvyd --agent`: the machine alone, for a control side in another process.
Status serve_agent(const Started& started) {
  const config::DaemonConfig& config = started.settings.now();
  SystemClock clock;
  DIVVY_TRY(machine, MachineSide::create(config, clock));
  DIVVY_TRY(server, agent::AgentServer::create(machine->agent(), agent_socket(config.folders.run),
                                               DIVVY_VERSION));
  DIVVY_TRY(metrics_options, metrics_options_of(config));
  const api::MetricsRoutes metrics(machine->metrics(), metrics_options);
  const auto metrics_server = api::serve_metrics(metrics, metrics_options);
  log_info("agent is ready",
           {{"gpus", machine->node().gpus().size()}, {"simulated", machine->node().simulated()}});
  started.background.tell({}, 0);
  const int signal = run_daemon_loop(
      started.signals, started.supervisor, started.settings,
      {.status = [&machine] { return fmt::format("{} tenants.", machine->tenants()); },
       .reload = [] {},
       .upkeep = [] {}});
  log_info("agent ends", {{"signal", signal}});
  return {};
}

// The control side, until the signal to end.
Status serve_control(const Started& started, const agent::Agents& agents, Clock& clock,
                     MachineSide* machine) {
  const config::DaemonConfig& config = started.settings.now();
  DIVVY_TRY(queue, ControlSide::create(agents, clock, control_settings_of(config)));
  std::unique_ptr<net::HttpServer> metrics_server;
  std::optional<api::MetricsRoutes> metrics;
  if (machine != nullptr) {
    DIVVY_TRY(metrics_options, metrics_options_of(config));
    api::MetricsSources sources = machine->metrics();
    sources.waiting = [&queue] { return queue->dispatcher().waiting(); };
    sources.queue = [&queue] { return queue->load(); };
    sources.passes = [&queue] { return queue->passes(); };
    sources.services = [&queue] { return queue->services(); };
    metrics.emplace(std::move(sources), metrics_options);
    metrics_server = api::serve_metrics(*metrics, metrics_options);
  }
  queue->dispatcher().set_default_mode(default_mode(config));
  const net::HttpServerOptions options = socket_options(config);
  DIVVY_TRY(server, net::HttpServer::create(options, [&](const auto& sent, const auto& caller) {
              return queue->handle(sent, caller);
            }));
  DIVVY_RETURN_IF_ERROR(sys::give_socket(options.socket, config.socket.mode, config.socket.group));
  apply_settings(started.settings, *queue);
  log_info("divvyd is ready", {{"version", DIVVY_VERSION},
                               {"run", config.folders.run.string()},
                               {"node", agents.here().node()},
                               {"separate_agent", machine == nullptr}});
  started.background.tell({}, 0);
  const int signal = run_daemon_loop(
      started.signals, started.supervisor, started.settings,
      {.status =
           [&queue, machine] {
             const std::size_t waiting = queue->dispatcher().waiting();
             if (machine == nullptr) return fmt::format("{} waiting.", waiting);
             return fmt::format("{} GPUs, {} tenants, {} waiting.", machine->node().gpus().size(),
                                machine->tenants(), waiting);
           },
       .reload = [&queue] { queue->renew_certificate(); },
       .upkeep = [&queue] { queue->tidy(); }});
  log_info("divvyd ends", {{"signal", signal}});
  return {};
}

Status serve_machine(const Started& started) {
  SystemClock clock;
  DIVVY_TRY(machine, MachineSide::create(started.settings.now(), clock));
  const agent::Agents agents({&machine->agent()});
  return serve_control(started, agents, clock, machine.get());
}

Status serve_with_separate_agent(const Started& started) {
  const config::DaemonConfig& config = started.settings.now();
  SystemClock clock;
  DIVVY_TRY(remote, find_agent(config.folders.run, started.arguments));
  const agent::Agents agents({remote.get()});
  const Status served = serve_control(started, agents, clock, nullptr);
  end_agent(config.folders.run);
  return served;
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
  // The controller of a cluster keeps nothing on a disk; as a pod it has none.
  const bool keeps_nothing = options.engine == Engine::kKubernetes && !options.background;
  if (!keeps_nothing) {
    const Status made = sys::make_folders(folders.run, folders.state);
    if (!made) return fail(made.error());
  }
  if (options.background) {
    auto entered = sys::Background::enter(folders.state / "divvyd.log");
    if (!entered) return fail(entered.error());
    background = *std::move(entered);
  }
  if (options.engine == Engine::kKubernetesNode) await_turn(options.settings.now());
  // The control side has the run folder's lock, the machine's side that of the ledger.
  Result<UniqueFd> lock = UniqueFd();
  if (!keeps_nothing && options.part != DaemonPart::kAgent)
    lock = sys::lock_run_folder(folders.run);
  if (!lock) return fail(lock.error());
  Result<UniqueFd> ledger_lock = UniqueFd();
  if (!keeps_nothing && options.part != DaemonPart::kControl) {
    ledger_lock = sys::lock_state_folder(folders.state);
  }
  if (!ledger_lock) return fail(ledger_lock.error());

  if (!options.restore.empty()) {
    const Status restored = ControlSide::restore(folders.state, options.restore);
    if (!restored) return fail(restored.error());
    log_info("the store is what it was in the backup", {{"file", options.restore.string()}});
    return 0;
  }
  const sigset_t signals = block_loop_signals();
  ::signal(SIGPIPE, SIG_IGN);
  sys::raise_descriptor_limit();
  sys::share_one_heap();
  const Started started{options.settings, background, supervisor, signals, options.arguments};
  const Status served = options.engine == Engine::kKubernetes ? serve_cluster(started, options.kube)
                        : options.engine == Engine::kKubernetesNode
                            ? serve_kubernetes_node(started, options.kube)
                        : options.part == DaemonPart::kAgent   ? serve_agent(started)
                        : options.part == DaemonPart::kControl ? serve_with_separate_agent(started)
                                                               : serve_machine(started);
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
