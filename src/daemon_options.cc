#include "daemon_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "config/config_file.h"
#include "net/local_paths.h"

namespace divvy {
namespace {

namespace fs = std::filesystem;
using config::DaemonConfig;

constexpr const char* kDefaultFile = "/etc/divvy/divvyd.yaml";

constexpr const char* kFooter =
    R"(Ends with SIGTERM or SIGINT; tenants go on meanwhile and are found again when
divvyd is started anew. SIGHUP reads the configuration again. `divvy run` starts
one in the background by itself. Settings: docs/configuration.md.

Exit status: 0 ended in order, 1 it did not work, 2 the command line or the
configuration was wrong, 3 another divvyd runs in the same folder.)";

// What was typed; nothing where it was not.
struct Typed {
  std::optional<fs::path> config;
  std::optional<fs::path> run;
  std::optional<fs::path> state;
  std::optional<fs::path> cdi;
  std::optional<std::string> metrics;
  std::vector<std::string> settings;
  std::optional<std::string> log_level;
  bool log_json = false;
  bool background = false;
  bool foreground = false;
  fs::path check_file;
  bool check = false;
  bool print = false;
  bool print_page = false;
  bool agent = false;
  bool separate_agent = false;
  fs::path restore;
  Engine engine = Engine::kMachine;
  KubeOptions kube;
};

const std::map<std::string, Engine> kEngines{{"machine", Engine::kMachine},
                                             {"kubernetes", Engine::kKubernetes},
                                             {"kubernetes-node", Engine::kKubernetesNode}};

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Where the file says nothing: root's daemon serves everybody, that of a user only the user.
DaemonConfig defaults(const Typed& typed) {
  DaemonConfig config;
  config.folders = {typed.run.value_or(net::run_folder()), net::state_folder()};
  if (::geteuid() != 0) config.socket.mode = 0600;
  // The port is for the daemon of the machine; others would only fight for it.
  if (config.folders.run != DaemonConfig().folders.run) config.metrics.address = "off";
  return config;
}

// The command line goes before the environment, and that before the file.
config::LiveConfig::Override overrides(const Typed& typed, std::optional<LogLevel> level) {
  return [typed, level](DaemonConfig& config) {
    if (is_set("DIVVY_RUN_DIR")) config.folders.run = net::run_folder();
    if (is_set("DIVVY_RUN_DIR") || is_set("DIVVY_STATE_DIR")) {
      config.folders.state = net::state_folder();
    }
    if (typed.run) config.folders.run = *typed.run;
    if (typed.state) config.folders.state = *typed.state;
    config.folders.run = fs::absolute(config.folders.run);
    config.folders.state = fs::absolute(config.folders.state);
    // Checked below.
    for (const std::string& setting : typed.settings) (void)config::set_by_text(config, setting);
    if (typed.cdi) config.cdi.folder = fs::absolute(*typed.cdi);
    if (typed.metrics) config.metrics.address = *typed.metrics;
    if (level) config.log.level = *level;
    if (typed.log_json) config.log.json = true;
  };
}

std::optional<fs::path> file_to_read(const Typed& typed) {
  if (typed.config) return fs::absolute(*typed.config);
  std::error_code code;
  if (::geteuid() == 0 && fs::exists(kDefaultFile, code)) return kDefaultFile;
  return std::nullopt;
}

int say(const Error& error) {
  // Each line says itself where it belongs.
  const bool places = error.code == ErrorCode::kInvalidArgument;
  std::cerr << (places ? "" : "divvyd: ") << error.message << "\n";
  return 2;
}

int check(const fs::path& file, const Typed& typed) {
  const auto config = config::load_config(file, defaults(typed));
  if (!config) return say(config.error());
  std::cout << file.string() << ": fine\n";
  return 0;
}

void describe(CLI::App& app, Typed& typed) {
  app.name("divvyd");
  app.footer(kFooter);
  app.set_help_flag("-h,--help", "Print this text");
  app.set_version_flag("--version", std::string("divvyd ") + DIVVY_VERSION, "Print the version");
  app.add_option("--config", typed.config,
                 "Settings in YAML (default /etc/divvy/divvyd.yaml where root runs it)")
      ->type_name("FILE");
  app.add_option("--check-config", typed.check_file,
                 "Say what is wrong in a file (default: the one that would be read) and end")
      ->type_name("FILE")
      ->expected(0, 1);
  app.add_flag("--print-config", typed.print, "Print the settings that would hold and end");
  app.add_flag("--print-config-page", typed.print_page, "Print docs/configuration.md")->group("");
  app.add_option("--run-dir", typed.run, "Folder of the sockets (DIVVY_RUN_DIR)")
      ->type_name("FOLDER");
  app.add_option("--state-dir", typed.state, "Folder of what survives a restart (DIVVY_STATE_DIR)")
      ->type_name("FOLDER");
  app.add_flag("--background", typed.background,
               "Go on in the background once ready; the log is divvyd.log in the state folder");
  app.add_flag("--foreground", typed.foreground, "Stay and log to standard error (the default)");
  CLI::Option* const separate = app.add_flag(
      "--separate-agent", typed.separate_agent,
      "Have the GPUs looked after by a process of its own, which goes on when this one "
      "is killed or replaced; SIGTERM ends both");
  app.add_flag("--agent", typed.agent, "Be that process")->excludes(separate);
  app.add_option("--restore", typed.restore,
                 "Make the store what it was in this backup and end; jobs run on meanwhile")
      ->type_name("FILE");
  app.add_option("--cdi-dir", typed.cdi,
                 "Folder of the devices for containers (DIVVY_CDI_DIR; default /etc/cdi and "
                 "/var/run/cdi for the daemon in /run/divvy, cdi in the run folder otherwise)")
      ->type_name("FOLDER");
  app.add_option("--set", typed.settings,
                 "One setting, as in --set health.sample_interval=5s; repeatable")
      ->type_name("SECTION.NAME=VALUE");
  app.add_option("--metrics", typed.metrics,
                 "Serve metrics for Prometheus on ADDRESS:PORT, or \"off\" (default: :9400 for the "
                 "daemon in /run/divvy, off for others)")
      ->type_name("ADDRESS");
  app.add_option("--log-level", typed.log_level, "debug, info, warning, error or off")
      ->type_name("LEVEL");
  app.add_flag("--log-json", typed.log_json, "One JSON object per line of the log");
}

void describe_kubernetes(CLI::App& app, Typed& typed) {
  app.add_option("--engine", typed.engine,
                 "Whose slices it gives: machine (this one's jobs and tenants, the default), "
                 "kubernetes (the controller of a cluster) or kubernetes-node (its agent here)")
      ->transform(CLI::CheckedTransformer(kEngines).description(""))
      ->type_name("ENGINE");
  const char* const group = "Kubernetes (docs/kubernetes-controller.md)";
  app.add_option("--kubeconfig", typed.kube.kubeconfig,
                 "How to reach the API server (default: as a pod, then as kubectl)")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--namespace", typed.kube.space,
                 "The namespace that Divvy is in (POD_NAMESPACE; default divvy-system)")
      ->type_name("NAME")
      ->envname("POD_NAMESPACE")
      ->group(group);
  app.add_option("--node-name", typed.kube.node_name,
                 "This node, as Kubernetes calls it (NODE_NAME; default: the name of the host)")
      ->type_name("NAME")
      ->envname("NODE_NAME")
      ->group(group);
  app.add_option("--kubelet-root", typed.kube.kubelet_root, "The kubelet's folder")
      ->type_name("FOLDER")
      ->capture_default_str()
      ->group(group);
  app.add_option("--way", typed.kube.way,
                 "How pods come to their slices: claims, or slots where a cluster has no claims")
      ->type_name("WAY")
      ->check(CLI::IsMember({"claims", "slots"}).description(""))
      ->capture_default_str()
      ->group(group);
  app.add_option("--webhook-address", typed.kube.webhook_address,
                 "Serve the admission webhook over TLS on ADDRESS:PORT")
      ->type_name("ADDRESS")
      ->group(group);
  app.add_option("--webhook-certificate", typed.kube.webhook_certificate, "Its certificate")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--webhook-key", typed.kube.webhook_key, "The key of the certificate")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--nvidia-gpus", typed.kube.nvidia_gpus,
                 "What nvidia.com/gpu means where a namespace does not say: whole GPUs, replicas "
                 "or leave (somebody else's)")
      ->type_name("MEANING")
      ->capture_default_str()
      ->group(group);
  app.add_option("--replicas-per-gpu", typed.kube.replicas_per_gpu,
                 "What nvidia.com/gpu.shared, and with replicas nvidia.com/gpu, is a part of")
      ->type_name("N")
      ->check(CLI::Range(1, 1000).description(""))
      ->group(group);
  app.add_option("--left-alone", typed.kube.left_alone,
                 "Dialects whose pods belong to somebody else (hami,kai)")
      ->type_name("NAMES")
      ->group(group);
  app.add_option("--zone-label", typed.kube.zone_label,
                 "The label of nodes that says in which zone they are")
      ->type_name("LABEL")
      ->capture_default_str()
      ->group(group);
  app.add_option("--rack-label", typed.kube.rack_label,
                 "The label of nodes that says in which rack they are")
      ->type_name("LABEL")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--no-preemption", typed.kube.no_preemption, "No pod makes way for another")
      ->group(group);
  app.add_option("--defragmentation", typed.kube.defragmentation,
                 "Move pods that say divvy.dev/movable so that others fit: off, dry-run (tell what "
                 "would be moved) or on")
      ->type_name("MODE")
      ->check(CLI::IsMember({"off", "dry-run", "on"}).description(""))
      ->capture_default_str()
      ->group(group);
  app.add_option("--defragmentation-moves", typed.kube.defragmentation_moves,
                 "So many pods at most are moved for one that waits")
      ->type_name("N")
      ->check(CLI::Range(1, 16).description(""))
      ->capture_default_str()
      ->group(group);
  app.add_option("--defragmentation-moves-per-hour", typed.kube.defragmentation_moves_per_hour,
                 "So many pods at most are moved in an hour")
      ->type_name("N")
      ->check(CLI::Range(1, 10000).description(""))
      ->capture_default_str()
      ->group(group);
  app.add_option("--defragmentation-least-stay", typed.kube.defragmentation_least_stay,
                 "A pod that has not been so long where it is stays there")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 604800).description(""))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--keep-on-failed-gpus", typed.kube.keep_on_failed_gpus,
               "Leave pods where they are when their GPU fails, instead of evicting them")
      ->group(group);
}

}  // namespace

std::variant<DaemonOptions, int> parse_daemon_options(int argc, char** argv) {
  Typed typed;
  CLI::App app{"Shares the GPUs of this machine: grants slices and keeps everybody inside theirs."};
  describe(app, typed);
  describe_kubernetes(app, typed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (typed.engine == Engine::kKubernetesNode && typed.kube.node_name.empty()) {
    return say({ErrorCode::kInternal, "--engine kubernetes-node needs --node-name NAME"});
  }
  typed.check = app.count("--check-config") > 0;
  if (typed.print_page) {
    std::cout << config::configuration_page();
    return 0;
  }
  const std::optional<fs::path> file = file_to_read(typed);
  if (typed.check) {
    return check(typed.check_file.empty() ? file.value_or(kDefaultFile) : typed.check_file, typed);
  }
  std::optional<LogLevel> level;
  if (typed.log_level) {
    const auto parsed = parse_log_level(*typed.log_level);
    if (!parsed) return say({ErrorCode::kInternal, parsed.error().message});
    level = *parsed;
  }
  DaemonConfig tried = defaults(typed);
  for (const std::string& setting : typed.settings) {
    if (const Status set = config::set_by_text(tried, setting); !set) {
      return say({ErrorCode::kInternal, fmt::format("--set {}: {}", setting, set.error().message)});
    }
  }
  auto settings = config::LiveConfig::create(file, defaults(typed), overrides(typed, level));
  if (!settings) return say(settings.error());
  if (typed.print) {
    std::cout << config::write_config(settings->now());
    return 0;
  }
  DaemonOptions options{.settings = *std::move(settings)};
  options.background = typed.background && !typed.foreground;
  options.engine = typed.engine;
  options.kube = typed.kube;
  if (options.kube.space.empty()) options.kube.space = "divvy-system";
  if (typed.agent) options.part = DaemonPart::kAgent;
  if (typed.separate_agent) options.part = DaemonPart::kControl;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    // The agent is started by us, and so in the background already.
    if (word != "--separate-agent" && word != "--background") options.arguments.push_back(word);
  }
  if (!typed.restore.empty()) options.restore = fs::absolute(typed.restore);
  return options;
}

}  // namespace divvy
