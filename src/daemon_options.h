// The command line of `divvyd` and the settings that follow from it. Composition.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "config/live_config.h"

namespace divvy {

// Which part of the daemon this process is.
enum class DaemonPart {
  kBoth,     // the machine and its control side
  kAgent,    // the machine, for a control side in another process
  kControl,  // the control side, whose agent is another process
};

// What the daemon shares GPUs for.
enum class Engine {
  kMachine,         // this machine alone
  kKubernetesNode,  // a node of a Kubernetes cluster, whose controller decides
};

struct KubernetesOptions {
  std::string node_name = {};             // this node's
  std::filesystem::path kubeconfig = {};  // empty: where everybody looks, or as a pod
  std::filesystem::path kubelet_root = {};
};

struct DaemonOptions {
  config::LiveConfig settings;
  bool background = false;
  DaemonPart part = DaemonPart::kBoth;
  Engine engine = Engine::kMachine;
  KubernetesOptions kubernetes = {};
  std::vector<std::string> arguments = {};  // as they were typed, for the agent
  std::filesystem::path restore = {};       // A backup: put the store back to it and end
};

// The options to serve with, or the exit status where the command line was about something else or
// was wrong; everything is printed already.
[[nodiscard]] std::variant<DaemonOptions, int> parse_daemon_options(int argc, char** argv);

}  // namespace divvy
