// The kubelet's side of device plugins, for tests: its two sockets, what was registered, and what
// it says of its containers. A plugin is called by the test itself. Callable from any thread.
#pragma once

#include <device_plugin_v1beta1.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pod_resources_v1.grpc.pb.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace divvy::kubelet::testing {

class FakeKubelet final : public v1beta1::Registration::Service,
                          public v1::PodResourcesLister::Service {
 public:
  // Below `root`, in device-plugins and pod-resources, which exist.
  explicit FakeKubelet(const std::filesystem::path& root) : root_(root) { start(); }
  ~FakeKubelet() override { stop(); }

  // As a kubelet starts: no plugin is known, and their sockets go.
  void start() {
    for (const auto& entry : std::filesystem::directory_iterator(root_ / "device-plugins")) {
      std::filesystem::remove(entry.path());
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + (root_ / "device-plugins/kubelet.sock").string(),
                             grpc::InsecureServerCredentials());
    builder.AddListeningPort("unix:" + (root_ / "pod-resources/kubelet.sock").string(),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<v1beta1::Registration::Service*>(this));
    builder.RegisterService(static_cast<v1::PodResourcesLister::Service*>(this));
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  grpc::Status Register(grpc::ServerContext* /*context*/, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* /*response*/) override {
    // It calls back before it answers.
    const auto plugin = v1beta1::DevicePlugin::NewStub(
        grpc::CreateChannel("unix:" + (root_ / "device-plugins" / request->endpoint()).string(),
                            grpc::InsecureChannelCredentials()));
    grpc::ClientContext back;
    v1beta1::DevicePluginOptions options;
    const grpc::Status called = plugin->GetDevicePluginOptions(&back, {}, &options);
    const std::lock_guard lock(mutex_);
    if (called.ok() && options.pre_start_required()) requests_.push_back(*request);
    changed_.notify_all();
    return called;
  }
  grpc::Status List(grpc::ServerContext* /*context*/,
                    const v1::ListPodResourcesRequest* /*request*/,
                    v1::ListPodResourcesResponse* response) override {
    const std::lock_guard lock(mutex_);
    *response = resources_;
    return grpc::Status::OK;
  }

  [[nodiscard]] bool await_registrations(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return requests_.size() >= count; });
  }
  [[nodiscard]] v1beta1::RegisterRequest last_request() {
    const std::lock_guard lock(mutex_);
    return requests_.back();
  }
  // What it says of a container.
  void give(const std::string& pod, const std::string& container, const std::string& slot,
            const std::string& space = "a") {
    const std::lock_guard lock(mutex_);
    auto* const one = resources_.add_pod_resources();
    one->set_name(pod);
    one->set_namespace_(space);
    auto* const of = one->add_containers();
    of->set_name(container);
    auto* const others = of->add_devices();
    others->set_resource_name("example.com/other");
    others->add_device_ids(slot);
    auto* const devices = of->add_devices();
    devices->set_resource_name("divvy.dev/slot");
    devices->add_device_ids(slot);
  }
  // It has forgotten what its pods had.
  void forget() {
    const std::lock_guard lock(mutex_);
    resources_.Clear();
  }

 private:
  const std::filesystem::path root_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1beta1::RegisterRequest> requests_;
  v1::ListPodResourcesResponse resources_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace divvy::kubelet::testing
