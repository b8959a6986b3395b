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

// What the slices that it gives belong to.
enum class Engine {
  kMachine,         // jobs and tenants of this machine
  kKubernetes,      // pods of a cluster: the controller, which needs no GPU
  kKubernetesNode,  // pods of a cluster: the agent of this node
};

// Of the engines that work for Kubernetes.
struct KubeOptions {
  std::filesystem::path kubeconfig = {};  // empty: as a pod, or as kubectl finds it
  std::string space = {};                 // the namespace that Divvy is in
  std::string node_name = {};             // of kKubernetesNode
  std::filesystem::path kubelet_root = "/var/lib/kubelet";
  std::string way = "claims";  // in which pods come to their slices; or "slots"
  // Of kKubernetes.
  std::string webhook_address = {};  // empty: no webhook
  std::filesystem::path webhook_certificate = {};
  std::filesystem::path webhook_key = {};
  std::string nvidia_gpus = "whole";  // what `nvidia.com/gpu` means where a namespace does not say
  std::uint32_t replicas_per_gpu = 0;
  std::string left_alone = {};  // dialects that belong to somebody else
  bool keep_on_failed_gpus = false;
  bool no_preemption = false;
  std::string defragmentation = "off";
  std::uint32_t defragmentation_moves = 4;
  std::uint32_t defragmentation_moves_per_hour = 12;
  std::uint32_t defragmentation_least_stay = 1800;  // seconds
  std::string zone_label = "topology.kubernetes.io/zone";
  std::string rack_label = "topology.kubernetes.io/rack";
};

struct DaemonOptions {
  config::LiveConfig settings;
  bool background = false;
  DaemonPart part = DaemonPart::kBoth;
  std::vector<std::string> arguments = {};  // as they were typed, for the agent
  Engine engine = Engine::kMachine;
  KubeOptions kube = {};
  std::filesystem::path restore = {};  // A backup: put the store back to it and end
};

// The options to serve with, or the exit status where the command line was about something else or
// was wrong; everything is printed already.
[[nodiscard]] std::variant<DaemonOptions, int> parse_daemon_options(int argc, char** argv);

}  // namespace divvy
