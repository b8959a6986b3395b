// The plugin for slots over its socket, with the test in the place of the kubelet.
#include "kubelet/device_plugin.h"

#include <device_plugin_v1beta1.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/log.h"
#include "kubelet/fake_kubelet.h"
#include "kubelet/testing.h"
#include "sys/disk.h"

namespace divvy::kubelet {
namespace {

namespace fs = std::filesystem;
using testing::FakeKubelet;
using testing::kNode;
using testing::put_pod;
using testing::test_slice;

class DevicePluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/divvy-slots-XXXXXX";
    root_ = ::mkdtemp(name);
    for (const char* folder : {"state", "device-plugins", "pod-resources"}) {
      fs::create_directories(root_ / folder);
    }
    disk_ = sys::open_disk(root_ / "state");
    kubelet_ = std::make_unique<FakeKubelet>(root_);
    resources_ = kubelet_pod_resources(root_ / "pod-resources/kubelet.sock");
    auto claims = PreparedClaims::create({api_, agent_, devices_, *disk_, view_});
    ASSERT_TRUE(claims.has_value()) << claims.error().message;
    claims_ = *std::move(claims);
    pods_ = std::make_unique<SlotPods>(SlotPods::Options{}, *claims_, *resources_, api_);
    serve();
  }
  void TearDown() override {
    plugin_.reset();
    pods_.reset();
    kubelet_.reset();
    fs::remove_all(root_);
  }
  void serve() {
    auto plugin = DevicePlugin::create(root_ / "device-plugins", *pods_, view_);
    ASSERT_TRUE(plugin.has_value()) << plugin.error().message;
    plugin_ = *std::move(plugin);
  }
  [[nodiscard]] std::unique_ptr<v1beta1::DevicePlugin::Stub> calls() const {
    return v1beta1::DevicePlugin::NewStub(grpc::CreateChannel("unix:" + plugin_->socket().string(),
                                                              grpc::InsecureChannelCredentials()));
  }
  std::string allocate(const std::string& slot) {
    v1beta1::AllocateRequest request;
    request.add_container_requests()->add_devices_ids(slot);
    v1beta1::AllocateResponse response;
    grpc::ClientContext context;
    const auto status = calls()->Allocate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return status.ok() ? response.container_responses(0).cdi_devices(0).name() : "";
  }
  grpc::Status start_container(const std::string& slot) {
    v1beta1::PreStartContainerRequest request;
    request.add_devices_ids(slot);
    v1beta1::PreStartContainerResponse response;
    grpc::ClientContext context;
    return calls()->PreStartContainer(&context, request, &response);
  }

  const LogCapture quiet_{LogLevel::kOff};
  fs::path root_;
  kube::FakeApi api_;
  testing::FakeAgent agent_{2};
  testing::FakeDevices devices_;
  std::unique_ptr<sys::Disk> disk_;
  NodeView view_{kNode};
  std::unique_ptr<FakeKubelet> kubelet_;
  std::unique_ptr<PodResources> resources_;
  std::unique_ptr<PreparedClaims> claims_;
  std::unique_ptr<SlotPods> pods_;
  std::unique_ptr<DevicePlugin> plugin_;
};

TEST_F(DevicePluginTest, OffersManySlotsOfEachGpu) {
  ASSERT_TRUE(kubelet_->await_registrations(1));
  EXPECT_EQ(kubelet_->last_request().resource_name(), "divvy.dev/slot");
  EXPECT_EQ(kubelet_->last_request().version(), "v1beta1");
  grpc::ClientContext context;
  const auto stream = calls()->ListAndWatch(&context, {});
  v1beta1::ListAndWatchResponse message;
  ASSERT_TRUE(stream->Read(&message));
  ASSERT_EQ(message.devices_size(), 128);
  EXPECT_EQ(message.devices(0).id(), "slot-0000");
  EXPECT_EQ(message.devices(127).id(), "slot-0127");
  EXPECT_EQ(message.devices(127).health(), "Healthy");
  // The stream ends with the plugin, and does not keep it.
  plugin_.reset();
  while (stream->Read(&message)) {
  }
}

TEST_F(DevicePluginTest, AContainerFindsItsDeviceWhenItStarts) {
  const std::string uid = put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  const std::string device = allocate("slot-0005");
  EXPECT_EQ(device, "divvy.dev/slot=slot-0005-1");
  EXPECT_FALSE(devices_.files.contains(uid));
  const auto early = start_container("slot-0005");
  EXPECT_FALSE(early.ok());
  EXPECT_NE(early.error_message().find("no container"), std::string::npos);
  kubelet_->give("p", "main", "slot-0005");
  const auto status = start_container("slot-0005");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(devices_.files.at(uid), std::set<std::string>{"slot-0005-1"});
  EXPECT_EQ(agent_.held().size(), 1U);
}

TEST_F(DevicePluginTest, SaysWhichSlotsItPrefers) {
  static_cast<void>(allocate("slot-0000"));
  v1beta1::PreferredAllocationRequest request;
  auto* const one = request.add_container_requests();
  for (const char* slot : {"slot-0000", "slot-0001"}) one->add_available_deviceids(slot);
  one->set_allocation_size(1);
  v1beta1::PreferredAllocationResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(calls()->GetPreferredAllocation(&context, request, &response).ok());
  ASSERT_EQ(response.container_responses(0).deviceids_size(), 1);
  EXPECT_EQ(response.container_responses(0).deviceids(0), "slot-0001");
}

TEST_F(DevicePluginTest, RegistersAgainWithAKubeletThatWasStartedAnew) {
  ASSERT_TRUE(kubelet_->await_registrations(1));
  kubelet_->stop();
  kubelet_->start();
  ASSERT_TRUE(kubelet_->await_registrations(2));
  static_cast<void>(allocate("slot-0000"));
  kubelet_->stop();
  kubelet_->start();
  EXPECT_TRUE(kubelet_->await_registrations(3));
}

TEST_F(DevicePluginTest, WaitsForAKubeletThatIsNotThereYet) {
  ASSERT_TRUE(kubelet_->await_registrations(1));
  plugin_.reset();
  kubelet_->stop();
  serve();
  EXPECT_FALSE(plugin_->is_registered());
  kubelet_->start();
  EXPECT_TRUE(kubelet_->await_registrations(2));
}

TEST_F(DevicePluginTest, LeavesNoSocketAndSaysWhatIsWrongWithTheFolder) {
  const fs::path socket = plugin_->socket();
  EXPECT_TRUE(fs::exists(socket));
  plugin_.reset();
  EXPECT_FALSE(fs::exists(socket));
  const auto none = DevicePlugin::create(root_ / "nowhere", *pods_, view_);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  const auto longest = DevicePlugin::create(root_ / std::string(100, 'x'), *pods_, view_);
  ASSERT_FALSE(longest.has_value());
  EXPECT_EQ(longest.error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace divvy::kubelet
