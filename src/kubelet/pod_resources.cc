#include "kubelet/pod_resources.h"

#include <grpcpp/grpcpp.h>
#include <pod_resources_v1.grpc.pb.h>

#include "kube/object_names.h"

namespace divvy::kubelet {
namespace {

constexpr int kLargestAnswer = 16 << 20;
constexpr auto kLongestWait = std::chrono::seconds(10);

class KubeletPodResources final : public PodResources {
 public:
  explicit KubeletPodResources(const std::filesystem::path& socket) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kLargestAnswer);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    stub_ = v1::PodResourcesLister::NewStub(grpc::CreateCustomChannel(
        "unix:" + socket.string(), grpc::InsecureChannelCredentials(), arguments));
  }

  Result<std::vector<HeldSlots>> held_slots() override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kLongestWait);
    v1::ListPodResourcesResponse response;
    const grpc::Status status = stub_->List(&context, {}, &response);
    if (!status.ok()) {
      return err(ErrorCode::kUnavailable, "the kubelet does not say who holds its devices: {}",
                 status.error_message());
    }
    std::vector<HeldSlots> all;
    for (const v1::PodResources& pod : response.pod_resources()) {
      for (const v1::ContainerResources& container : pod.containers()) {
        HeldSlots held{{pod.namespace_(), pod.name(), container.name()}, {}};
        for (const v1::ContainerDevices& devices : container.devices()) {
          if (devices.resource_name() != kube::kSlotResource) continue;
          held.slots.insert(devices.device_ids().begin(), devices.device_ids().end());
        }
        if (!held.slots.empty()) all.push_back(std::move(held));
      }
    }
    return all;
  }

 private:
  std::unique_ptr<v1::PodResourcesLister::Stub> stub_;
};

}  // namespace

std::unique_ptr<PodResources> kubelet_pod_resources(const std::filesystem::path& socket) {
  return std::make_unique<KubeletPodResources>(socket);
}

}  // namespace divvy::kubelet
