#include "kube_node_parts.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "daemon_settings.h"
#include "kube/credentials.h"
#include "kube/pod_request.h"
#include "kube_engines.h"
#include "net/http.h"
#include "sys/daemon.h"

namespace divvy {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookAgain = 100ms;

// In a child process: 200 to everybody, until it is killed.
[[noreturn]] void serve_while_waiting(const net::TcpAddress& address) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  net::HttpServerOptions options;
  options.network = address;
  options.max_body = 1024;
  const auto server = net::HttpServer::create(options, [](const auto&, const auto&) {
    net::HttpResponse response;
    response.status = 200;
    response.body = "waits for the agent before it to end\n";
    return response;
  });
  if (!server) log_warning("nobody is told", {{"reason", server.error().message}});
  for (;;) ::pause();
}

// By which the kubelet's sockets are told apart.
std::string instance_name() {
  const char* const uid = std::getenv("POD_UID");
  return uid != nullptr && *uid != '\0' ? std::string(uid) : std::to_string(::getpid());
}

}  // namespace

// Meanwhile a child process says to whoever asks at the address for metrics that all is well, so
// that Kubernetes ends the old one.
void await_turn(const config::DaemonConfig& config) {
  const auto is_free = [&config] {
    const auto run = sys::lock_run_folder(config.folders.run);
    const auto state = sys::lock_state_folder(config.folders.state);
    const auto taken = [](const auto& lock) {
      return !lock && lock.error().code == ErrorCode::kAlreadyExists;
    };
    return !taken(run) && !taken(state);
  };
  if (is_free()) return;
  log_info("waits for the agent before it to end");
  const auto metrics = metrics_options_of(config);
  pid_t child = -1;
  if (metrics && metrics->listen) child = ::fork();
  if (child == 0) serve_while_waiting(*metrics->listen);
  while (!is_free()) std::this_thread::sleep_for(kLookAgain);
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

Result<std::unique_ptr<KubeNodeSide>> KubeNodeSide::create(const KubeOptions& options,
                                                           const config::DaemonConfig& config,
                                                           MachineSide& machine, Clock& clock) {
  if (machine.containers() == nullptr) {
    return err(ErrorCode::kFailedPrecondition,
               "pods get their slices as devices for containers; set cdi.enabled to true");
  }
  std::unique_ptr<KubeNodeSide> made(new KubeNodeSide(options.node_name, machine));
  KubeNodeSide& side = *made;
  DIVVY_TRY(credentials, kube::find_credentials(options.kubeconfig));
  DIVVY_TRY(api, kube::HttpApi::create(std::move(credentials),
                                       {.user_agent = "divvy-node/" DIVVY_VERSION}, clock));
  side.api_ = std::move(api);
  side.devices_ = kubelet::cdi_claim_devices(*machine.containers());
  side.disk_ = sys::open_disk(config.folders.state);
  machine.agent().listen([&view = side.view_](const agent::News& news) { view.hear(news); });
  DIVVY_TRY(claims, kubelet::PreparedClaims::create({.api = *side.api_,
                                                     .agent = machine.agent(),
                                                     .devices = *side.devices_,
                                                     .disk = *side.disk_,
                                                     .view = side.view_}));
  side.claims_ = std::move(claims);
  side.publisher_ = std::make_unique<kubelet::GpuNodePublisher>(
      kubelet::GpuNodePublisher::Options{.version = DIVVY_VERSION,
                                         .simulated = machine.node().simulated()},
      *side.api_, side.view_, clock);
  side.publisher_->start();
  DIVVY_TRY(plugin, kubelet::DraPlugin::create(
                        {.kubelet_root = options.kubelet_root, .instance = instance_name()},
                        *side.claims_, side.view_, clock));
  side.plugin_ = std::move(plugin);
  DIVVY_TRY(way, kube::parse_way(options.way));
  if (way == kube::Way::kSlots) DIVVY_RETURN_IF_ERROR(side.serve_slots(options.kubelet_root));
  return made;
}

// Beside the plugin for claims, which releases those of before.
Status KubeNodeSide::serve_slots(const std::filesystem::path& kubelet_root) {
  resources_ = kubelet::kubelet_pod_resources(kubelet_root / "pod-resources/kubelet.sock");
  slots_ = std::make_unique<kubelet::SlotPods>(kubelet::SlotPods::Options{}, *claims_, *resources_,
                                               *api_);
  slots_->start();
  DIVVY_TRY(plugin, kubelet::DevicePlugin::create(kubelet_root / "device-plugins", *slots_, view_));
  device_plugin_ = std::move(plugin);
  return {};
}

std::map<model::MemberKey, api::PodOfTenant> KubeNodeSide::pods() const {
  std::map<model::MemberKey, api::PodOfTenant> all;
  for (const auto& [uid, record] : view_.now().claims) {
    for (const kubelet::RequestedSlices& one : kubelet::requests_of(record)) {
      all.emplace(one.key, api::PodOfTenant{record.space, record.pod, one.request});
    }
  }
  return all;
}

KubeNodeSide::~KubeNodeSide() { machine_.agent().listen({}); }

}  // namespace divvy
