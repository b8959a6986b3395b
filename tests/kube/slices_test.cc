// Pods with slices, on a real cluster with Divvy installed by its chart: what a pod asks for is
// what the program inside sees and gets.
#include <fmt/format.h>

#include <algorithm>

#include "kube_cluster.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

class KubeSlices : public KubeCluster {
 protected:
  // The image that kube-install has loaded.
  void SetUp() override {
    KubeCluster::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    image_ = must({"get", "daemonset", "divvy-node", "--namespace", "divvy-system", "-o",
                   "jsonpath={.spec.template.spec.containers[0].image}"});
    ASSERT_FALSE(image_.empty());
  }

  [[nodiscard]] PodOptions gpuload(const std::string& share, std::vector<std::string> words) const {
    PodOptions options{.image = image_, .command = std::move(words)};
    if (!share.empty()) options.annotations.emplace_back("divvy.dev/gpu", share);
    return options;
  }

  // What gpuload has written as JSON.
  json::object report(const std::string& pod) {
    const std::string text = must({"logs", pod});
    boost::system::error_code wrong;
    json::value value = json::parse(text, wrong);
    EXPECT_FALSE(wrong) << text;
    return value.is_object() ? value.as_object() : json::object();
  }

  // Claims that the nodes of the cluster still hold slices for, of this test's namespace.
  std::size_t held() {
    const std::string text =
        must({"get", "gpunodes", "-o",
              fmt::format("jsonpath={{.items[*].status.held[?(@.namespace==\"{}\")].claimUid}}",
                          name_space())});
    return text.empty() ? 0U
                        : static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
  }

  std::string image_;
};

std::int64_t number_at(const json::value& object, std::string_view pointer) {
  boost::system::error_code wrong;
  const json::value* found = object.find_pointer(pointer, wrong);
  EXPECT_NE(found, nullptr) << pointer << " is not in " << json::serialize(object);
  return found != nullptr ? found->to_number<std::int64_t>() : -1;
}

std::string text_at(const json::value& object, std::string_view pointer) {
  boost::system::error_code wrong;
  const json::value* found = object.find_pointer(pointer, wrong);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
}

TEST_F(KubeSlices, APodSeesTheShareOfTheMemoryThatItAsksFor) {
  ASSERT_EQ(create_pod("slice", gpuload("0.3", {"gpuload", "info"})).status, 0);
  wait_for("pod/slice", "jsonpath={.status.phase}=Succeeded");
  const json::object info = report("slice");
  EXPECT_EQ(number_at(info, "/devices"), 1);
  // Three tenths of an H200, which has 141 GiB less what its driver keeps.
  const std::int64_t bytes = number_at(info, "/memory/device_total_bytes");
  EXPECT_GT(bytes, 40 * kGiB);
  EXPECT_LT(bytes, 43 * kGiB);
}

TEST_F(KubeSlices, APodCannotAllocateMoreThanItsMemory) {
  PodOptions options = gpuload("0.1", {"gpuload", "alloc", "--chunk", "64MiB", "--exact"});
  options.annotations.emplace_back("divvy.dev/gpu-memory", "2Gi");
  ASSERT_EQ(create_pod("full", options).status, 0);
  wait_for("pod/full", "jsonpath={.status.phase}=Succeeded");
  const json::object alloc = report("full");
  EXPECT_EQ(text_at(alloc, "/families/0/stopped"), "refused");
  const std::int64_t bytes = number_at(alloc, "/families/0/bytes");
  EXPECT_LE(bytes, 2 * kGiB);
  EXPECT_GT(bytes, kGiB);
}

TEST_F(KubeSlices, TwoPodsShareOneGpuAndSeeTheirOwnParts) {
  for (const char* name : {"first", "second"}) {
    ASSERT_EQ(
        create_pod(name, gpuload("0.4", {"sh", "-c", "gpuload info; exec sleep infinity"})).status,
        0);
  }
  for (const char* name : {"first", "second"}) {
    wait_for(fmt::format("pod/{}", name), "condition=Ready");
  }
  std::vector<json::object> infos;
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(eventually([&] { return !kubectl({"logs", name}).out.empty(); }));
    infos.push_back(report(name));
  }
  // The default policy keeps whole GPUs whole.
  EXPECT_EQ(text_at(infos[0], "/device/uuid"), text_at(infos[1], "/device/uuid"));
  for (const json::object& info : infos) {
    EXPECT_LT(number_at(info, "/memory/device_total_bytes"), 58 * kGiB);
  }
}

TEST_F(KubeSlices, APodWithoutARequestSeesNoGpu) {
  ASSERT_EQ(create_pod("none", gpuload("", {"gpuload", "info"})).status, 0);
  wait_for("pod/none", "jsonpath={.status.phase}=Failed");
  EXPECT_TRUE(get("pod", "none").at("spec").as_object().find("resourceClaims") ==
              get("pod", "none").at("spec").as_object().end());
}

TEST_F(KubeSlices, ADeletedPodGivesItsSliceToTheNext) {
  // Four whole GPUs are all there are.
  for (int number = 0; number < 4; ++number) {
    ASSERT_EQ(
        create_pod(fmt::format("whole-{}", number), gpuload("1", {"sleep", "infinity"})).status, 0);
  }
  for (int number = 0; number < 4; ++number) {
    wait_for(fmt::format("pod/whole-{}", number), "condition=Ready");
  }
  EXPECT_EQ(held(), 4U);
  ASSERT_EQ(create_pod("next", gpuload("1", {"sleep", "infinity"})).status, 0);
  wait_for("pod/next",
           "jsonpath={.status.conditions[?(@.type==\"divvy.dev/Placed\")].status}=False");
  delete_pod("whole-2");
  wait_for("pod/next", "condition=Ready");
  EXPECT_EQ(held(), 4U);
}

TEST_F(KubeSlices, NothingIsLeftOfDeletedPods) {
  ASSERT_EQ(create_pod("short", gpuload("0.5", {"sleep", "infinity"})).status, 0);
  wait_for("pod/short", "condition=Ready");
  EXPECT_EQ(held(), 1U);
  delete_pod("short");
  EXPECT_TRUE(eventually([&] { return held() == 0; }));
  EXPECT_TRUE(eventually([&] { return must({"get", "resourceclaims", "-o", "name"}).empty(); }));
  for (const char* node : {"node-1", "node-2"}) {
    const Outcome files =
        cluster({"shell", node, "grep", "-ls", "divvy.dev/claim", "-r", "/run/cdi"});
    EXPECT_EQ(files.out, "") << node;
  }
}

TEST_F(KubeSlices, APodWorksOnWhileItsNodeAgentIsReplaced) {
  PodOptions options =
      gpuload("0.5", {"gpuload", "loop", "--us", "400", "--kernels", "10", "--seconds", "3600"});
  options.node = "node-1";
  ASSERT_EQ(create_pod("works", options).status, 0);
  wait_for("pod/works", "condition=Ready");
  const auto agent = [&] {
    return must({"get", "pods", "--namespace", "divvy-system", "--selector",
                 "app.kubernetes.io/component=node", "--field-selector", "spec.nodeName=node-1",
                 "-o", "jsonpath={.items[0].metadata.name}"});
  };
  must({"delete", "pod", agent(), "--namespace", "divvy-system", "--timeout=120s"});
  must({"rollout", "status", "daemonset/divvy-node", "--namespace", "divvy-system",
        "--timeout=120s"});
  // The new agent gives out slices, and knows of the old one.
  options.command = {"gpuload", "info"};
  ASSERT_EQ(create_pod("after", options).status, 0);
  wait_for("pod/after", "jsonpath={.status.phase}=Succeeded");
  EXPECT_EQ(must({"get", "pod", "works", "-o",
                  "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"}),
            "Running 0");
  EXPECT_GE(held(), 1U);
}

}  // namespace
}  // namespace divvy::testing
