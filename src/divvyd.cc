// `divvyd`: the daemon of a machine with GPUs. Composition only: the parts are made here in the
// order in which they need each other, and go in the opposite order.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <string>

#include "api/node_routes.h"
#include "base/clock.h"
#include "base/log.h"
#include "container_parts.h"
#include "driver.h"
#include "net/http.h"
#include "net/local_paths.h"
#include "node/arbiter.h"
#include "node/house.h"
#include "node/inventory.h"
#include "node/keeper.h"
#include "node/ledger.h"
#include "node/mps_mode.h"
#include "node/tenants.h"

namespace {

namespace fs = std::filesystem;
using namespace divvy;

constexpr const char* kFooter =
    R"(Ends with SIGTERM or SIGINT; tenants go on meanwhile and are found again when
divvyd is started anew. `divvy run` starts one in the background by itself.

Exit status: 0 ended in order, 1 it did not work, 2 the command line was wrong,
3 another divvyd runs in one of its folders.)";

struct Options {
  fs::path run = net::run_folder();
  fs::path state = net::state_folder();
  fs::path cdi;
  bool graphics = false;
  bool background = false;
  std::string log_level = "info";
  bool log_json = false;
};

void on_mps_death(const model::GpuUuid& gpu, const Status& restarted) {
  if (restarted) {
    log_warning("MPS daemon died and was started again", {{"gpu", gpu}});
  } else {
    log_error("MPS daemon died", {{"gpu", gpu}, {"reason", restarted.error().message}});
  }
}

// Everything between "the lock is ours" and the signal to end.
Status serve(const Options& options, node::Background& background, const sigset_t& signals) {
  // Before any thread: it is a fork of this process.
  DIVVY_TRY(keeper, node::Keeper::create());
  DIVVY_TRY(library, open_driver());
  DIVVY_TRY(inventory, node::take_inventory(*library));
  const auto disk = node::open_disk(options.state);
  DIVVY_TRY(ledger, node::Ledger::open(*disk, node::boot_id()));
  SystemClock clock;
  node::Arbiter arbiter(clock);
  node::Mps mps({.folder = options.run / "mps", .control = {}, .on_death = on_mps_death});
  const auto containers = make_container_devices(
      inventory, {options.run, options.state, options.cdi, options.graphics});
  DIVVY_TRY(tenants, node::Tenants::create({.library = *library,
                                            .node = std::move(inventory),
                                            .arbiter = arbiter,
                                            .keeper = keeper,
                                            .clock = clock,
                                            .run_folder = options.run,
                                            .ledger = *ledger,
                                            .prepare_mps = node::prepare_mps(mps),
                                            .leave_mps = node::leave_mps(mps),
                                            .containers = containers.get()}));
  mps.stop_unused();
  const api::NodeRoutes routes(*tenants, DIVVY_VERSION);
  net::HttpServerOptions server_options;
  server_options.socket = net::api_socket(options.run);
  // Everybody may ask root's daemon for a slice; each may change only their own.
  server_options.mode = ::geteuid() == 0 ? 0666 : 0600;
  DIVVY_TRY(server, net::HttpServer::create(server_options,
                                            [&routes](const auto& request, const auto& caller) {
                                              return routes.handle(request, caller);
                                            }));
  log_info("divvyd is ready", {{"version", DIVVY_VERSION},
                               {"run", options.run.string()},
                               {"gpus", tenants->node().gpus().size()},
                               {"simulated", tenants->node().simulated()}});
  background.tell({}, 0);
  int signal = 0;
  sigwait(&signals, &signal);
  log_info("divvyd ends", {{"signal", signal}});
  return {};
}

int run(Options options) {
  options.run = fs::absolute(options.run);
  options.state = fs::absolute(options.state);
  node::Background background;
  const auto fail = [&background](const Error& error) {
    const int status = error.code == ErrorCode::kAlreadyExists ? 3 : 1;
    background.tell(err(error), status);
    return status;
  };
  if (const Status made = node::make_folders(options.run, options.state); !made) {
    return fail(made.error());
  }
  if (options.background) {
    auto entered = node::Background::enter(options.state / "divvyd.log");
    if (!entered) return fail(entered.error());
    background = *std::move(entered);
  }
  const auto lock = node::lock_run_folder(options.run);
  if (!lock) return fail(lock.error());
  const auto ledger_lock = node::lock_state_folder(options.state);
  if (!ledger_lock) return fail(ledger_lock.error());

  // Blocked here, so that no thread made later takes them; serve() waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  node::raise_descriptor_limit();
  const Status served = serve(options, background, signals);
  return served ? 0 : fail(served.error());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Shares the GPUs of this machine: grants slices and keeps everybody inside theirs."};
  app.name("divvyd");
  app.footer(kFooter);
  bool foreground = false;
  app.set_help_flag("-h,--help", "Print this text");
  app.set_version_flag("--version", std::string("divvyd ") + DIVVY_VERSION, "Print the version");
  app.add_option("--run-dir", options.run, "Folder of the sockets (DIVVY_RUN_DIR)")
      ->type_name("FOLDER");
  app.add_option("--state-dir", options.state,
                 "Folder of what survives a restart (DIVVY_STATE_DIR)")
      ->type_name("FOLDER");
  app.add_option("--cdi-dir", options.cdi,
                 "Folder of the devices for containers (DIVVY_CDI_DIR; default /etc/cdi and "
                 "/var/run/cdi for root, cdi in the run folder otherwise)")
      ->type_name("FOLDER");
  app.add_flag("--graphics", options.graphics,
               "Give containers what drawing and video need as well");
  app.add_flag("--background", options.background,
               "Go on in the background once ready; the log is divvyd.log in the state folder");
  app.add_flag("--foreground", foreground, "Stay and log to standard error (the default)");
  app.add_option("--log-level", options.log_level, "debug, info, warning, error or off")
      ->type_name("LEVEL");
  app.add_flag("--log-json", options.log_json, "One JSON object per line of the log");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.background = options.background && !foreground;
  const auto level = parse_log_level(options.log_level);
  if (!level) {
    std::cerr << "divvyd: " << level.error().message << "\n";
    return 2;
  }
  configure_log(*level, options.log_json ? LogFormat::kJson : LogFormat::kText);
  return run(std::move(options));
}
