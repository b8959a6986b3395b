// The node agent as Kubernetes runs it: the real `divvyd --engine kubernetes-node` on simulated
// GPUs, an API server of the test, and the test in the place of the kubelet.
#include <device_plugin_v1beta1.grpc.pb.h>
#include <dra_v1.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "container_image.h"
#include "divvyd_machine.h"
#include "kube/allocation.h"
#include "kube/fake_api.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"
#include "kubelet/fake_kubelet.h"
#include "net/http.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
namespace dra = k8s::io::kubelet::pkg::apis::dra::v1;

constexpr const char* kNode = "gpu-1";
constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims";
constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

// The fake API server over HTTP, for a program that is not this one.
class ServedApi {
 public:
  ServedApi() {
    net::HttpServerOptions options;
    options.network = net::TcpAddress{"127.0.0.1", 0};
    auto made = net::HttpServer::create(
        options, [this](const auto& request, const auto&) { return answer(request); });
    EXPECT_TRUE(made.has_value()) << made.error().message;
    server_ = *std::move(made);
  }
  [[nodiscard]] std::string address() const {
    return fmt::format("http://127.0.0.1:{}", server_->port());
  }
  kube::FakeApi api;

 private:
  net::HttpResponse answer(const net::HttpRequest& request) {
    boost::system::error_code code;
    const json::value body = json::parse(request.body.empty() ? "{}" : request.body, code);
    Result<json::object> result = err(ErrorCode::kUnsupported, "no such verb");
    if (request.method == "GET") result = api.get(request.path);
    if (request.method == "POST") result = api.create(request.path, body.as_object());
    if (request.method == "PUT") result = api.replace(request.path, body.as_object());
    net::HttpResponse response;
    if (result) {
      response.body = json::serialize(*result);
      return response;
    }
    switch (result.error().code) {
      case ErrorCode::kNotFound:
        response.status = 404;
        break;
      case ErrorCode::kAlreadyExists:
      case ErrorCode::kFailedPrecondition:
        response.status = 409;
        break;
      default:
        response.status = 500;
    }
    response.body = json::serialize(json::object{
        {"kind", "Status"},
        {"reason", result.error().code == ErrorCode::kAlreadyExists ? "AlreadyExists" : ""},
        {"message", result.error().message}});
    return response;
  }

  std::unique_ptr<net::HttpServer> server_;
};

class KubeNode : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    fs::create_directories(folder() / "k");
    start_kubelet();
    std::ofstream(folder() / "kubeconfig")
        << "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        << "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        << "clusters: [{name: c, cluster: {server: \"" << served_.address() << "\"}}]\n"
        << "users: [{name: u, user: {}}]\n";
    start_node();
  }
  void TearDown() override {
    node_ = Program();
    Machine::TearDown();
  }

  // Before the agent.
  virtual void start_kubelet() {}
  void start_node(const std::string& instance = "one") {
    std::erase_if(environment_, [](const auto& one) { return one.starts_with("POD_UID="); });
    environment_.push_back("POD_UID=" + instance);
    node_ = start({DIVVYD_PROGRAM, "--engine", "kubernetes-node", "--node-name", kNode,
                   "--kubeconfig", (folder() / "kubeconfig").string(), "--kubelet-root",
                   (folder() / "k").string(), "--way", way_},
                  "node");
    calls_ = folder() / fmt::format("k/plugins/divvy.dev/dra-{}.sock", instance);
    ASSERT_TRUE(eventually([this] { return node_.errors().find("is ready") != std::string::npos; }))
        << node_.errors();
  }
  // As the kubelet finds it.
  void kill_node() {
    node_.signal(SIGKILL);
    (void)node_.finish();
  }

  [[nodiscard]] std::vector<model::GpuUuid> gpus() {
    std::vector<model::GpuUuid> found;
    EXPECT_TRUE(eventually([&] {
      const auto object = served_.api.get(fmt::format("/apis/divvy.dev/v1/gpunodes/{}", kNode));
      if (!object) return false;
      found.clear();
      for (const json::value& gpu : kube::array_at(*object, {"status", "state", "gpus"})) {
        found.push_back(*model::GpuUuid::parse(kube::text_at(gpu.as_object(), {"uuid"})));
      }
      return !found.empty();
    }));
    return found;
  }
  // The claims that the node says it holds.
  [[nodiscard]] std::size_t held() {
    const auto object = served_.api.get(fmt::format("/apis/divvy.dev/v1/gpunodes/{}", kNode));
    return object ? kube::array_at(*object, {"status", "held"}).size() : 0;
  }

  // A claim for one container, `main`; its uid.
  std::string put_claim(const std::string& name, const model::GpuUuid& gpu, std::uint32_t share,
                        Bytes memory) {
    kube::Allocation allocation{.node = kNode,
                                .slices = {{"main", "s-" + name,
                                            *model::Slice::create(gpu, memory, Share(share),
                                                                  model::ShareKind::kGuarantee)}},
                                .at = {}};
    const auto made = served_.api.put(
        kClaims, {{"metadata", json::object{{"name", name}, {"namespace", "team-a"}}},
                  {"status", json::object{{"allocation", kube::write_allocation(allocation)},
                                          {"reservedFor",
                                           json::array{json::object{{"resource", "pods"},
                                                                    {"name", "pod-" + name}}}}}}});
    return std::string(kube::text_at(made, {"metadata", "uid"}));
  }
  [[nodiscard]] std::unique_ptr<dra::DRAPlugin::Stub> plugin() const {
    return dra::DRAPlugin::NewStub(
        grpc::CreateChannel("unix:" + calls_.string(), grpc::InsecureChannelCredentials()));
  }
  dra::NodePrepareResourceResponse prepare(const std::string& name, const std::string& uid) {
    dra::NodePrepareResourcesRequest request;
    dra::Claim* const claim = request.add_claims();
    claim->set_namespace_("team-a");
    claim->set_name(name);
    claim->set_uid(uid);
    dra::NodePrepareResourcesResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto status = plugin()->NodePrepareResources(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.claims().at(uid);
  }
  std::string unprepare(const std::string& uid) {
    dra::NodeUnprepareResourcesRequest request;
    request.add_claims()->set_uid(uid);
    dra::NodeUnprepareResourcesResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto status = plugin()->NodeUnprepareResources(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.claims().at(uid).error();
  }
  [[nodiscard]] fs::path cdi_file(const std::string& uid) const {
    return folder() / "run/cdi" / fmt::format("divvy.dev-claim_{}.json", uid);
  }
  // The socket that containers of the claim have mounted.
  [[nodiscard]] std::string socket_of(const std::string& uid) const {
    std::ostringstream text;
    text << std::ifstream(cdi_file(uid)).rdbuf();
    const json::value document = json::parse(text.str());
    const json::value& edits = document.at("devices").at(0).at("containerEdits");
    std::string folder_there;
    for (const json::value& mount : edits.at("mounts").as_array()) {
      if (mount.at("containerPath").as_string() == "/run/divvy/slice") {
        folder_there = mount.at("hostPath").as_string();
      }
    }
    for (const json::value& variable : edits.at("env").as_array()) {
      const std::string one(variable.as_string());
      if (one.starts_with("DIVVY_SOCKET=")) return folder_there + one.substr(one.rfind('/'));
    }
    return {};
  }

  ServedApi served_;
  std::string way_ = "claims";
  Program node_;
  fs::path calls_;
};

TEST_F(KubeNode, TellsTheControllerOfItsGpusAndOfWhatItHolds) {
  ASSERT_EQ(gpus().size(), 2U);
  const std::string uid = put_claim("c", gpus()[0], 300, Bytes(4 * kGib));
  EXPECT_EQ(prepare("c", uid).error(), "");
  EXPECT_TRUE(eventually([this] { return held() == 1; }));
  EXPECT_EQ(unprepare(uid), "");
  EXPECT_TRUE(eventually([this] { return held() == 0; }));
}

TEST_F(KubeNode, AClaimIsATenantThatSurvivesTheAgent) {
  const std::string uid = put_claim("c", gpus()[1], 300, Bytes(4 * kGib));
  const auto answer = prepare("c", uid);
  ASSERT_EQ(answer.error(), "");
  ASSERT_EQ(answer.devices_size(), 1);
  EXPECT_EQ(answer.devices(0).cdi_device_ids(0), "divvy.dev/claim=" + uid + "-main");
  FakeProcess process(socket_of(uid));
  ASSERT_TRUE(process.join());
  EXPECT_FALSE(process.refused());
  // A process of the pod is still there.
  EXPECT_NE(unprepare(uid).find("process"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder() / "run/state/claims.json"));
  kill_node();
  start_node("two");
  EXPECT_EQ(prepare("c", uid).error(), "");
  FakeProcess another(socket_of(uid));
  EXPECT_TRUE(another.join());
  process.hang_up();
  another.hang_up();
  std::string error;
  EXPECT_TRUE(eventually([&] {
    error = unprepare(uid);
    return error.empty();
  })) << error;
  EXPECT_FALSE(fs::exists(cdi_file(uid)));
}

TEST_F(KubeNode, RefusesWhatAnotherClaimHolds) {
  const model::GpuUuid gpu = gpus()[0];
  const std::string first = put_claim("c", gpu, 700, Bytes(4 * kGib));
  const std::string second = put_claim("d", gpu, 700, Bytes(4 * kGib));
  EXPECT_EQ(prepare("c", first).error(), "");
  EXPECT_NE(prepare("d", second).error(), "");
  EXPECT_FALSE(fs::exists(cdi_file(second)));
  kill_node();
  start_node();
  EXPECT_NE(prepare("d", second).error(), "");
  EXPECT_EQ(unprepare(first), "");
  EXPECT_EQ(prepare("d", second).error(), "");
}

TEST_F(KubeNode, TheNextAgentWaitsForTheOneBeforeItToEnd) {
  const std::string uid = put_claim("c", gpus()[0], 300, Bytes(4 * kGib));
  EXPECT_EQ(prepare("c", uid).error(), "");
  Program before = std::move(node_);
  const fs::path calls_before = calls_;
  std::erase_if(environment_, [](const auto& one) { return one.starts_with("POD_UID="); });
  environment_.emplace_back("POD_UID=two");
  node_ =
      start({DIVVYD_PROGRAM, "--engine", "kubernetes-node", "--node-name", kNode, "--kubeconfig",
             (folder() / "kubeconfig").string(), "--kubelet-root", (folder() / "k").string()},
            "node");
  ASSERT_TRUE(eventually([this] { return node_.errors().find("waits") != std::string::npos; }));
  // The old one goes on meanwhile.
  EXPECT_EQ(prepare("c", uid).error(), "");
  before.signal(SIGTERM);
  EXPECT_EQ(before.finish().status, 0);
  EXPECT_FALSE(fs::exists(calls_before));
  calls_ = folder() / "k/plugins/divvy.dev/dra-two.sock";
  ASSERT_TRUE(eventually([this] { return node_.errors().find("is ready") != std::string::npos; }));
  EXPECT_EQ(unprepare(uid), "");
}

TEST_F(KubeNode, StartsWithoutTheApiServerAndSaysWhatIsMissing) {
  const std::string uid = put_claim("c", gpus()[0], 300, Bytes(4 * kGib));
  EXPECT_EQ(prepare("c", uid).error(), "");
  served_.api.set_away(true);
  kill_node();
  start_node();
  EXPECT_NE(prepare("c", uid).error(), "") << "nobody can tell what the claim is";
  EXPECT_EQ(unprepare(uid), "") << "what it was is remembered";
  const Outcome nameless =
      start({DIVVYD_PROGRAM, "--engine", "kubernetes-node"}, "nameless").finish();
  EXPECT_EQ(nameless.status, 2);
  EXPECT_NE(nameless.err.find("--node-name"), std::string::npos);
}

TEST_F(KubeNode, AContainerOfTheClaimRunsInItsSlice) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount in a namespace of its own";
  for (const char* program : {"/usr/bin/podman", "/usr/bin/unshare", "/bin/busybox"}) {
    ASSERT_TRUE(fs::exists(program)) << program << " is missing; packages.txt has it";
  }
  if (start({"/usr/bin/unshare", "-m", "/bin/busybox", "true"}, "unshare").finish().status != 0) {
    GTEST_SKIP() << "the kernel gives us no mount namespace";
  }
  make_container_image(folder() / "image", {DIVVY_PROGRAM, GPULOAD_PROGRAM});
  ::chmod((folder() / "gpus").c_str(), 0666);
  const model::GpuUuid gpu = gpus()[1];
  const std::string uid = put_claim("c", gpu, 300, Bytes(4 * kGib));
  const auto answer = prepare("c", uid);
  ASSERT_EQ(answer.error(), "");
  std::string line = podman_line(folder()) + " run --rm";
  for (const std::string& word : container_run_options()) line += fmt::format(" '{}'", word);
  line += fmt::format(" --device '{}' --rootfs '{}' gpuload info",
                      answer.devices(0).cdi_device_ids(0), (folder() / "image").string());
  const Outcome inside = start({"/usr/bin/unshare", "-m", "/bin/sh", "-c", line}, "pod").finish();
  ASSERT_EQ(inside.status, 0) << inside.err;
  const json::value info = json::parse(inside.out);
  EXPECT_EQ(info.at("devices").to_number<int>(), 1);
  EXPECT_EQ(info.at("memory").at("device_total_bytes").to_number<std::uint64_t>(), 4 * kGib);
  EXPECT_EQ(std::string(info.at("device").at("uuid").as_string()), gpu.str());
  EXPECT_EQ(unprepare(uid), "");
}

// --- By slots ---

class KubeNodeSlots : public KubeNode {
 protected:
  void start_kubelet() override {
    way_ = "slots";
    fs::create_directories(folder() / "k/device-plugins");
    fs::create_directories(folder() / "k/pod-resources");
    kubelet_ = std::make_unique<kubelet::testing::FakeKubelet>(folder() / "k");
  }
  void SetUp() override {
    KubeNode::SetUp();
    ASSERT_TRUE(kubelet_->await_registrations(1));
  }
  void TearDown() override {
    KubeNode::TearDown();
    kubelet_.reset();
  }

  // A pod with one container, `main`; its uid.
  std::string put_pod(const std::string& name, const model::GpuUuid& gpu, std::uint32_t share,
                      Bytes memory) {
    model::JobSpec spec(model::Request::parse("0.1", std::nullopt).value());
    spec.holder = model::Holder::kSlice;
    kube::PodRequest request(std::move(spec));
    request.dialect = "divvy";
    request.containers = {"main"};
    request.way = kube::Way::kSlots;
    const kube::Allocation allocation{
        .node = kNode,
        .slices = {{"main", "s-" + name,
                    *model::Slice::create(gpu, memory, Share(share),
                                          model::ShareKind::kGuarantee)}},
        .at = {}};
    const auto made = served_.api.put(
        "/api/v1/namespaces/team-a/pods",
        {{"metadata",
          json::object{
              {"name", name},
              {"namespace", "team-a"},
              {"annotations",
               json::object{
                   {kube::kRequestAnnotation, kube::write_request_annotation(request)},
                   {kube::kAllocationAnnotation, kube::write_allocation_annotation(allocation)}}}}},
         {"spec", json::object{{"nodeName", kNode},
                               {"containers", json::array{json::object{{"name", "main"}}}}}},
         {"status", json::object{{"phase", "Pending"}}}});
    return std::string(kube::text_at(made, {"metadata", "uid"}));
  }
  [[nodiscard]] std::unique_ptr<v1beta1::DevicePlugin::Stub> slots() const {
    return v1beta1::DevicePlugin::NewStub(
        grpc::CreateChannel("unix:" + (folder() / "k/device-plugins/divvy.dev-slot.sock").string(),
                            grpc::InsecureChannelCredentials()));
  }
  // As the kubelet admits a pod; the device that its container asks the runtime for.
  std::string admit(const std::string& pod, const std::string& slot) {
    v1beta1::AllocateRequest request;
    request.add_container_requests()->add_devices_ids(slot);
    v1beta1::AllocateResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto status = slots()->Allocate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    kubelet_->give(pod, "main", slot, "team-a");
    return status.ok() ? response.container_responses(0).cdi_devices(0).name() : "";
  }
  std::string start_container(const std::string& slot) {
    v1beta1::PreStartContainerRequest request;
    request.add_devices_ids(slot);
    v1beta1::PreStartContainerResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    return slots()->PreStartContainer(&context, request, &response).error_message();
  }
  void remove_pod(const std::string& name) {
    ASSERT_TRUE(
        served_.api.remove("/api/v1/namespaces/team-a/pods/" + name, {{"gracePeriodSeconds", 0}}));
    kubelet_->forget();
  }

  std::unique_ptr<kubelet::testing::FakeKubelet> kubelet_;
};

TEST_F(KubeNodeSlots, AContainerHasItsSliceUntilItsPodIsGoneAndNoProcessUsesIt) {
  const std::string uid = put_pod("p", gpus()[1], 300, Bytes(4 * kGib));
  EXPECT_EQ(admit("p", "slot-0000"), "divvy.dev/slot=slot-0000-1");
  EXPECT_FALSE(fs::exists(cdi_file(uid)));
  ASSERT_EQ(start_container("slot-0000"), "");
  EXPECT_TRUE(eventually([this] { return held() == 1; }));
  FakeProcess process(socket_of(uid));
  ASSERT_TRUE(process.join());
  EXPECT_FALSE(process.refused());
  // The agent is killed, and its successor goes on; so does the container, which is restarted.
  kill_node();
  start_node("two");
  ASSERT_TRUE(kubelet_->await_registrations(2));
  EXPECT_EQ(start_container("slot-0000"), "");
  FakeProcess another(socket_of(uid));
  EXPECT_TRUE(another.join());
  // The kubelet is started anew.
  kubelet_->stop();
  kubelet_->start();
  ASSERT_TRUE(kubelet_->await_registrations(3));
  remove_pod("p");
  process.hang_up();
  another.hang_up();
  EXPECT_TRUE(eventually([this] { return held() == 0; }));
  EXPECT_FALSE(fs::exists(cdi_file(uid)));
}

TEST_F(KubeNodeSlots, RefusesWhatAnotherPodHolds) {
  const model::GpuUuid gpu = gpus()[0];
  put_pod("p", gpu, 700, Bytes(4 * kGib));
  const std::string second = put_pod("q", gpu, 700, Bytes(4 * kGib));
  admit("p", "slot-0000");
  admit("q", "slot-0001");
  EXPECT_EQ(start_container("slot-0000"), "");
  EXPECT_NE(start_container("slot-0001"), "");
  EXPECT_FALSE(fs::exists(cdi_file(second)));
  remove_pod("p");
  kubelet_->give("q", "main", "slot-0001", "team-a");
  EXPECT_TRUE(eventually([this] { return start_container("slot-0001").empty(); }));
  EXPECT_TRUE(fs::exists(cdi_file(second)));
}

}  // namespace
}  // namespace divvy::testing
