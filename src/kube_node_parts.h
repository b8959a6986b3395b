// The agent of a node of Kubernetes, put together: the API server, the claims, the plugin of the
// kubelet and the object for the controller, over the machine's side. Composition for `divvyd`.
#pragma once

#include <map>
#include <memory>

#include "api/metrics_snapshot.h"
#include "base/clock.h"
#include "base/result.h"
#include "config/daemon_config.h"
#include "daemon_options.h"
#include "kube/http_api.h"
#include "kubelet/claim_devices.h"
#include "kubelet/device_plugin.h"
#include "kubelet/dra_plugin.h"
#include "kubelet/gpu_node.h"
#include "kubelet/node_view.h"
#include "kubelet/pod_resources.h"
#include "kubelet/prepared_claims.h"
#include "kubelet/slot_pods.h"
#include "machine_parts.h"
#include "sys/disk.h"

namespace divvy {

class KubeNodeSide {
 public:
  // The API server need not answer yet. `machine` and `clock` outlive it.
  [[nodiscard]] static Result<std::unique_ptr<KubeNodeSide>> create(
      const KubeOptions& options, const config::DaemonConfig& config, MachineSide& machine,
      Clock& clock);
  ~KubeNodeSide();
  KubeNodeSide(const KubeNodeSide&) = delete;
  KubeNodeSide& operator=(const KubeNodeSide&) = delete;

  // Whose slices those of the machine are.
  [[nodiscard]] std::map<model::MemberKey, api::PodOfTenant> pods() const;

 private:
  KubeNodeSide(const std::string& node, MachineSide& machine) : view_(node), machine_(machine) {}
  [[nodiscard]] Status serve_slots(const std::filesystem::path& kubelet_root);

  kubelet::NodeView view_;
  MachineSide& machine_;
  std::unique_ptr<kube::HttpApi> api_;
  std::unique_ptr<kubelet::ClaimDevices> devices_;
  std::unique_ptr<sys::Disk> disk_;
  std::unique_ptr<kubelet::PreparedClaims> claims_;
  std::unique_ptr<kubelet::GpuNodePublisher> publisher_;
  std::unique_ptr<kubelet::DraPlugin> plugin_;
  // Where pods go by slots.
  std::unique_ptr<kubelet::PodResources> resources_;
  std::unique_ptr<kubelet::SlotPods> slots_;
  std::unique_ptr<kubelet::DevicePlugin> device_plugin_;
};

}  // namespace divvy
