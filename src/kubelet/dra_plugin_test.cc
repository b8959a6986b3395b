// The plugin over its sockets, called as the kubelet does.
#include "kubelet/dra_plugin.h"

#include <dra_health_v1alpha1.grpc.pb.h>
#include <dra_v1.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <plugin_registration.grpc.pb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <future>
#include <thread>

#include "base/log.h"
#include "kubelet/testing.h"

namespace divvy::kubelet {
namespace {

namespace fs = std::filesystem;
namespace dra = k8s::io::kubelet::pkg::apis::dra::v1;
using testing::kNode;
using testing::put_claim;
using testing::test_slice;

class DraPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/divvy-kubelet-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "state");
    disk_ = sys::open_disk(root_ / "state");
    auto claims = PreparedClaims::create({api_, agent_, devices_, *disk_, view_});
    ASSERT_TRUE(claims.has_value()) << claims.error().message;
    claims_ = *std::move(claims);
    agent_.listen([this](const agent::News& news) { view_.hear(news); });
    serve("pod-uid");
  }
  void TearDown() override {
    agent_.listen({});
    plugin_.reset();
    fs::remove_all(root_);
  }
  void serve(const std::string& instance) {
    auto plugin =
        DraPlugin::create({.kubelet_root = root_, .instance = instance}, *claims_, view_, clock_);
    ASSERT_TRUE(plugin.has_value()) << plugin.error().message;
    plugin_ = *std::move(plugin);
  }
  // With the authority that the kubelet's plugin watcher sends: the path, percent-encoded.
  [[nodiscard]] static std::shared_ptr<grpc::Channel> connect(const fs::path& socket) {
    std::string authority;
    for (const char c : socket.string()) authority += c == '/' ? "%2F" : std::string(1, c);
    grpc::ChannelArguments arguments;
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, authority);
    return grpc::CreateCustomChannel("unix:" + socket.string(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  [[nodiscard]] std::unique_ptr<dra::DRAPlugin::Stub> kubelet() const {
    return dra::DRAPlugin::NewStub(connect(plugin_->calls_socket()));
  }

  const LogCapture quiet_{LogLevel::kOff};
  fs::path root_;
  SystemClock clock_;
  kube::FakeApi api_;
  testing::FakeAgent agent_{8};
  testing::FakeDevices devices_;
  std::unique_ptr<sys::Disk> disk_;
  NodeView view_{kNode};
  std::unique_ptr<PreparedClaims> claims_;
  std::unique_ptr<DraPlugin> plugin_;
};

template <typename Request>
void add_claim(Request& request, const std::string& name, const std::string& uid) {
  auto* const claim = request.add_claims();
  claim->set_namespace_("a");
  claim->set_name(name);
  claim->set_uid(uid);
}

TEST_F(DraPluginTest, IsFoundByTheKubelet) {
  EXPECT_EQ(plugin_->registration_socket(), root_ / "plugins_registry/divvy.dev-pod-uid-reg.sock");
  const auto registration =
      pluginregistration::Registration::NewStub(connect(plugin_->registration_socket()));
  grpc::ClientContext context;
  pluginregistration::PluginInfo info;
  const auto status = registration->GetInfo(&context, {}, &info);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info.type(), "DRAPlugin");
  EXPECT_EQ(info.name(), "divvy.dev");
  EXPECT_EQ(info.endpoint(), plugin_->calls_socket().string());
  ASSERT_GE(info.supported_versions_size(), 1);
  EXPECT_EQ(info.supported_versions(0), "v1.DRAPlugin");

  EXPECT_FALSE(plugin_->is_registered());
  grpc::ClientContext second;
  pluginregistration::RegistrationStatus registered;
  registered.set_plugin_registered(true);
  pluginregistration::RegistrationStatusResponse nothing;
  ASSERT_TRUE(registration->NotifyRegistrationStatus(&second, registered, &nothing).ok());
  EXPECT_TRUE(plugin_->is_registered());
}

TEST_F(DraPluginTest, PreparesAndUnpreparesEveryClaimOfACall) {
  const std::string good = put_claim(
      api_, "c", {{"main", "s-1", test_slice(0, 300)}, {"main", "s-2", test_slice(1, 300)}});
  dra::NodePrepareResourcesRequest request;
  add_claim(request, "c", good);
  add_claim(request, "gone", "gone-uid");
  dra::NodePrepareResourcesResponse response;
  grpc::ClientContext context;
  const auto status = kubelet()->NodePrepareResources(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.claims().size(), 2U);
  const auto& answer = response.claims().at(good);
  EXPECT_EQ(answer.error(), "");
  ASSERT_EQ(answer.devices_size(), 2);
  EXPECT_EQ(answer.devices(0).request_names(0), "main");
  EXPECT_EQ(answer.devices(0).pool_name(), kNode);
  EXPECT_EQ(answer.devices(0).device_name(), "s-1");
  EXPECT_EQ(answer.devices(0).cdi_device_ids(0), "divvy.dev/claim=" + good + "-main");
  EXPECT_NE(response.claims().at("gone-uid").error(), "");
  EXPECT_EQ(agent_.held().size(), 1U);

  dra::NodeUnprepareResourcesRequest end;
  add_claim(end, "c", good);
  add_claim(end, "never", "seen");
  dra::NodeUnprepareResourcesResponse ended;
  grpc::ClientContext second;
  ASSERT_TRUE(kubelet()->NodeUnprepareResources(&second, end, &ended).ok());
  ASSERT_EQ(ended.claims().size(), 2U);
  EXPECT_EQ(ended.claims().at(good).error(), "");
  EXPECT_EQ(ended.claims().at("seen").error(), "");
  EXPECT_TRUE(agent_.held().empty());
}

TEST_F(DraPluginTest, AClaimThatHangsHoldsUpNoOther) {
  const std::string slow = put_claim(api_, "slow", {{"main", "s-1", test_slice(0, 300)}});
  const std::string quick = put_claim(api_, "quick", {{"main", "s-2", test_slice(1, 300)}});
  std::promise<void> let_go;
  const auto gate = let_go.get_future().share();
  std::promise<void> stands;
  agent_.before = [&](const agent::Order& order) {
    const auto* const grant = std::get_if<agent::GrantOrder>(&order);
    if (grant == nullptr || grant->command.find("slow") == std::string::npos) return;
    stands.set_value();
    gate.wait();
  };
  // One connection, as the kubelet has it.
  const auto stub = kubelet();
  dra::NodePrepareResourcesRequest request;
  add_claim(request, "slow", slow);
  dra::NodePrepareResourcesResponse slow_answer;
  grpc::ClientContext slow_context;
  std::thread waiting(
      [&] { EXPECT_TRUE(stub->NodePrepareResources(&slow_context, request, &slow_answer).ok()); });
  stands.get_future().wait();
  dra::NodePrepareResourcesRequest other;
  add_claim(other, "quick", quick);
  dra::NodePrepareResourcesResponse answer;
  grpc::ClientContext context;
  EXPECT_TRUE(stub->NodePrepareResources(&context, other, &answer).ok());
  EXPECT_EQ(answer.claims().at(quick).error(), "");
  let_go.set_value();
  waiting.join();
  EXPECT_EQ(slow_answer.claims().at(slow).error(), "");
}

TEST_F(DraPluginTest, ManyCallsAtOnceAreAllAnswered) {
  constexpr int kCalls = 24;
  std::vector<std::string> uids;
  for (int i = 0; i < kCalls; ++i) {
    uids.push_back(put_claim(api_, fmt::format("c{}", i),
                             {{"main", fmt::format("s-{}", i), test_slice(i % 8, 300)}}));
  }
  const auto stub = kubelet();
  std::vector<std::future<std::string>> errors;
  for (int i = 0; i < kCalls; ++i) {
    errors.push_back(std::async(std::launch::async, [&, i] {
      dra::NodePrepareResourcesRequest request;
      add_claim(request, fmt::format("c{}", i), uids[static_cast<std::size_t>(i)]);
      dra::NodePrepareResourcesResponse response;
      grpc::ClientContext context;
      const auto status = stub->NodePrepareResources(&context, request, &response);
      if (!status.ok()) return status.error_message();
      return response.claims().at(uids[static_cast<std::size_t>(i)]).error();
    }));
  }
  for (auto& one : errors) EXPECT_EQ(one.get(), "");
  EXPECT_EQ(agent_.held().size(), static_cast<std::size_t>(kCalls));
  EXPECT_EQ(devices_.files.size(), static_cast<std::size_t>(kCalls));
}

TEST_F(DraPluginTest, TellsTheKubeletOfAGpuThatFails) {
  const std::string uid = put_claim(api_, "c", {{"main", "s-1", test_slice(3, 300)}});
  ASSERT_TRUE(claims_->prepare({"a", "c", uid}));
  const auto health = v1alpha1::DRAResourceHealth::NewStub(connect(plugin_->calls_socket()));
  grpc::ClientContext context;
  const auto stream = health->NodeWatchResources(&context, {});
  v1alpha1::NodeWatchResourcesResponse message;
  ASSERT_TRUE(stream->Read(&message));
  ASSERT_EQ(message.devices_size(), 1);
  EXPECT_EQ(message.devices(0).device().pool_name(), kNode);
  EXPECT_EQ(message.devices(0).device().device_name(), "s-1");
  EXPECT_EQ(message.devices(0).health(), v1alpha1::HEALTHY);
  agent_.fail_gpu(3, "fell off the bus");
  do {
    ASSERT_TRUE(stream->Read(&message));
  } while (message.devices(0).health() == v1alpha1::HEALTHY);
  EXPECT_EQ(message.devices(0).health(), v1alpha1::UNHEALTHY);
  EXPECT_EQ(message.devices(0).message(), "GPU 3 fell off the bus");
  // The stream ends with the plugin, and does not keep it.
  plugin_.reset();
  while (stream->Read(&message)) {
  }
}

TEST_F(DraPluginTest, LeavesNoSocketAndRemovesThoseOfInstancesBefore) {
  const fs::path registration = plugin_->registration_socket();
  const fs::path calls = plugin_->calls_socket();
  // Killed: the files stay.
  const fs::path stale = root_ / "plugins_registry/divvy.dev-old-reg.sock";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  stale.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  plugin_.reset();
  EXPECT_FALSE(fs::exists(registration));
  EXPECT_FALSE(fs::exists(calls));
  ASSERT_TRUE(fs::exists(stale));
  serve("new");
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(root_ / "plugins/divvy.dev/dra-new.sock"));
}

TEST_F(DraPluginTest, SaysWhatIsWrongWithTheKubeletsFolder) {
  const auto none = DraPlugin::create({.kubelet_root = root_ / "nowhere", .instance = "x"},
                                      *claims_, view_, clock_);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  const auto longest = DraPlugin::create({.kubelet_root = root_, .instance = std::string(100, 'x')},
                                         *claims_, view_, clock_);
  ASSERT_FALSE(longest.has_value());
  EXPECT_EQ(longest.error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace divvy::kubelet
