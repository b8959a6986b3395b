// Every dialect that docs/kubernetes-dialects.md promises, on a real cluster: the pod that asks in
// it runs in a slice of the size that it means, and the program inside sees that much.
#include <fmt/format.h>

#include <algorithm>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct Asked {
  const char* name;
  Pairs limits;
  Pairs annotations;
  Pairs labels;
  std::int64_t share;      // in thousandths, of each device
  std::int64_t bytes = 0;  // 0: the same part of the memory
  std::int64_t devices = 1;
};

std::ostream& operator<<(std::ostream& out, const Asked& asked) { return out << asked.name; }

// One after the other, so that what some leave the next ones find.
const std::vector<Asked>& all_dialects() {
  static const std::vector<Asked> kAll = {
      {"divvy-annotation", {}, {{"divvy.dev/gpu", "0.3"}}, {}, 300},
      {"divvy-memory",
       {},
       {{"divvy.dev/gpu", "0.1"}, {"divvy.dev/gpu-memory", "4Gi"}},
       {},
       100,
       4 * kGiB},
      {"divvy-resource", {{"divvy.dev/gpu", "200"}}, {}, {}, 200},
      {"divvy-several", {}, {{"divvy.dev/gpu", "2"}}, {}, 1000, 0, 2},
      {"nvidia", {{"nvidia.com/gpu", "1"}}, {}, {}, 1000},
      {"hami",
       {{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}, {"nvidia.com/gpucores", "30"}},
       {},
       {},
       300,
       3000 * kMiB},
      {"kai", {}, {{"gpu-fraction", "0.5"}}, {}, 500},
      {"kai-memory", {}, {{"gpu-memory", "2000"}}, {}, 0, 2000 * kMiB},
      {"volcano",
       {{"volcano.sh/vgpu-number", "1"},
        {"volcano.sh/vgpu-memory", "3000"},
        {"volcano.sh/vgpu-cores", "50"}},
       {},
       {},
       500,
       3000 * kMiB},
      {"aliyun", {{"aliyun.com/gpu-mem", "3"}}, {}, {}, 0, 3 * kGiB},
      {"tencent",
       {{"tencent.com/vcuda-core", "50"}, {"tencent.com/vcuda-memory", "32"}},
       {},
       {},
       500,
       32 * 256 * kMiB},
      {"kubeshare",
       {},
       {},
       {{"sharedgpu/gpu_request", "0.4"}, {"sharedgpu/gpu_limit", "1.0"}},
       400},
  };
  return kAll;
}

class KubeDialects : public KubeSlices, public ::testing::WithParamInterface<Asked> {
 protected:
  // The pod has run, and its program saw what the claim says, which is what was asked for.
  void expect_runs_in(const std::string& pod, const Asked& asked) {
    wait_for("pod/" + pod, "jsonpath={.status.phase}=Succeeded");
    const json::object info = report(pod);
    EXPECT_EQ(number_at(info, "/devices"), asked.devices);
    // What was allocated stands in the pod's condition too; the claim has gone with the end.
    const std::int64_t whole = memory_of_a_gpu();
    const std::int64_t seen = number_at(info, "/memory/device_total_bytes");
    const std::int64_t meant = asked.bytes != 0 ? asked.bytes : whole * asked.share / 1000;
    // A whole GPU is shown as the driver has it.
    EXPECT_NEAR(static_cast<double>(seen), static_cast<double>(meant), 0.01 * whole) << pod;
    if (asked.bytes != 0) {
      EXPECT_EQ(seen, asked.bytes);
    }
  }

  std::int64_t memory_of_a_gpu() {
    return number_at(get("gpunode", "node-1"), "/status/state/gpus/0/memory");
  }
};

TEST_P(KubeDialects, APodRunsInTheSliceThatItMeans) {
  const Asked& asked = GetParam();
  PodOptions options{.image = image_, .command = {"gpuload", "info"}};
  options.limits = asked.limits;
  options.annotations = asked.annotations;
  options.labels = asked.labels;
  const Outcome made = create_pod(asked.name, options);
  ASSERT_EQ(made.status, 0) << made.err;
  expect_runs_in(asked.name, asked);
  // Nothing that no node offers is left in it.
  const json::object pod = get("pod", asked.name);
  for (const auto& [name, value] : asked.limits) {
    EXPECT_EQ(json::serialize(pod.at("spec")).find(name), std::string::npos) << name;
  }
  if (asked.share != 0) {
    const std::string condition =
        must({"get", "pod", asked.name, "-o",
              "jsonpath={.status.conditions[?(@.type==\"divvy.dev/Placed\")].message}"});
    EXPECT_NE(
        condition.find(asked.share == 1000
                           ? std::string("gpu")
                           : fmt::format("{} of gpu", static_cast<double>(asked.share) / 1000)),
        std::string::npos)
        << condition;
  }
}

INSTANTIATE_TEST_SUITE_P(All, KubeDialects, ::testing::ValuesIn(all_dialects()),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class KubeNamespaces : public KubeSlices {};

TEST_F(KubeNamespaces, ReplicasMeanAPartWhereTheNamespaceSaysSo) {
  must({"label", "namespace", name_space(), "divvy.dev/nvidia-gpus=replicas",
        "divvy.dev/replicas-per-gpu=4"});
  PodOptions options{.image = image_, .command = {"gpuload", "info"}};
  options.limits = {{"nvidia.com/gpu", "1"}};
  // The webhook learns of labels by a watch: until then a pod is one for a whole GPU.
  ASSERT_TRUE(eventually([&] {
    const Outcome dry = kubectl({"run", "try", "--image=x", "--dry-run=server", "-o", "json",
                                 "--overrides", R"({"spec":{"containers":[{"name":"try","image":"x",
        "resources":{"limits":{"nvidia.com/gpu":"1"}}}]}})"});
    return dry.out.find("nvidia-replicas") != std::string::npos;
  }));
  ASSERT_EQ(create_pod("replica", options).status, 0);
  wait_for("pod/replica", "jsonpath={.status.phase}=Succeeded");
  const std::int64_t bytes = number_at(report("replica"), "/memory/device_total_bytes");
  EXPECT_GT(bytes, 33 * kGiB);
  EXPECT_LT(bytes, 36 * kGiB);
}

TEST_F(KubeNamespaces, WhatCannotBeMeantIsRefusedWithTheFieldAndTheRemedy) {
  PodOptions options{.image = image_};
  options.limits = {{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", "101"}};
  const Outcome refused = create_pod("wrong", options);
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("spec.containers[0].resources.limits[\"nvidia.com/gpucores\"]: 101 % "
                             "of a card is more than one; write 1 to 100"),
            std::string::npos)
      << refused.err;
}

TEST_F(KubeNamespaces, AClaimWrittenByHandIsAllocatedForThePodThatRefersToIt) {
  const json::object claim = {
      {"apiVersion", "resource.k8s.io/v1"},
      {"kind", "ResourceClaim"},
      {"metadata", json::object{{"name", "third"}}},
      {"spec",
       json::object{
           {"devices",
            json::object{
                {"requests", json::array{json::object{
                                 {"name", "gpu"},
                                 {"exactly", json::object{{"deviceClassName", "divvy.dev"}}}}}},
                {"config",
                 json::array{json::object{
                     {"opaque",
                      json::object{{"driver", "divvy.dev"},
                                   {"parameters", json::object{{"apiVersion", "divvy.dev/v1"},
                                                               {"kind", "SliceRequest"},
                                                               {"gpu", "0.3"},
                                                               {"gpuMemory", "10Gi"}}}}}}}}}}}}};
  ASSERT_EQ(apply(claim).status, 0);
  PodOptions options{.image = image_, .command = {"gpuload", "info"}};
  options.spec["resourceClaims"] =
      json::array{json::object{{"name", "mine"}, {"resourceClaimName", "third"}}};
  options.container["resources"] =
      json::object{{"claims", json::array{json::object{{"name", "mine"}, {"request", "gpu"}}}}};
  ASSERT_EQ(create_pod("byhand", options).status, 0);
  wait_for("pod/byhand", "jsonpath={.status.phase}=Succeeded");
  EXPECT_EQ(number_at(report("byhand"), "/memory/device_total_bytes"), 10 * kGiB);
}

}  // namespace
}  // namespace divvy::testing
