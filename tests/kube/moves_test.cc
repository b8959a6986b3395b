// Pods that are moved so that one that waits finds its GPUs in one piece, and what the capacity
// plan says meanwhile, on the real cluster: two nodes with two GPUs each.
#include <fmt/format.h>

#include <set>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class KubeMoves : public KubeSlices {
 protected:
  void TearDown() override {
    if (!IsSkipped()) {
      kubectl({"delete", "deployments,pods", "--all", "--timeout=120s"});
      defragment("off");
    }
    KubeSlices::TearDown();
  }

  void defragment(const std::string& mode) {
    ASSERT_EQ(cluster({"helm", "upgrade", "divvy", KUBE_CHART, "--namespace", "divvy-system",
                       "--reuse-values", "--set-string", "controller.defragmentation.mode=" + mode,
                       "--set", "controller.defragmentation.leastStaySeconds=0", "--wait",
                       "--timeout", "3m"})
                  .status,
              0);
    must({"rollout", "status", "deployment/divvy-controller", "--namespace", "divvy-system",
          "--timeout=180s"});
  }
  // One pod that may be moved.
  void deploy(const std::string& name) {
    PodOptions options = gpuload("0.5", {"sh", "-c", "gpuload info; exec sleep infinity"});
    options.labels = {{"app", name}};
    options.annotations.emplace_back("divvy.dev/movable", "true");
    options.restart_policy = "Always";
    options.spec["terminationGracePeriodSeconds"] = 1;
    json::object pod = pod_document(name, options);
    pod.erase("apiVersion");
    pod.erase("kind");
    pod.at("metadata").as_object().erase("name");
    const json::object labels{{"app", name}};
    ASSERT_EQ(apply(json::object{
                        {"apiVersion", "apps/v1"},
                        {"kind", "Deployment"},
                        {"metadata", json::object{{"name", name}}},
                        {"spec", json::object{{"replicas", 1},
                                              {"selector", json::object{{"matchLabels", labels}}},
                                              {"template", std::move(pod)}}}})
                  .status,
              0);
    wait_for("deployment/" + name, "condition=Available");
  }
  std::string pod_of(const std::string& name) {
    return must(
        {"get", "pods", "--selector", "app=" + name, "-o", "jsonpath={.items[0].metadata.name}"});
  }
  std::string events() {
    return must({"get", "events", "-o", "jsonpath={range .items[*]}{.reason}: {.message}\n{end}"});
  }
  std::string plan(const std::string& path) {
    return must({"get", "capacityplan", "divvy", "-o", "jsonpath={" + path + "}"});
  }
};

TEST_F(KubeMoves, TwoPodsAreMovedSoThatAPairOfGpusIsFreeOnOneNode) {
  // A half on each GPU, the other half free.
  std::set<std::string> gpus;
  std::set<std::string> stay;
  for (int i = 0; i < 8; ++i) deploy(fmt::format("half-{}", i));
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("half-{}", i);
    const json::object claim = claim_of(pod_of(name));
    const char* const result = "/status/allocation/devices/results/0/pool";
    const char* const config = "/status/allocation/devices/config/0/opaque/parameters/gpu";
    if (gpus.insert(text_at(claim, result) + text_at(claim, config)).second) {
      stay.insert(name);
    } else {
      must({"delete", "deployment", name});
      must({"wait", "pods", "--selector", "app=" + name, "--for=delete", "--timeout=120s"});
    }
  }
  ASSERT_EQ(stay.size(), 4U);
  ASSERT_TRUE(eventually([&] { return plan(".status.free.stranded") == "2"; })) << plan(".status");
  defragment("dry-run");
  ASSERT_EQ(
      create_pod("pair", gpuload("2", {"sh", "-c", "gpuload info; exec sleep infinity"})).status,
      0);
  // It has to wait for a minute before anybody is moved for it.
  must({"wait", "capacityplan/divvy", "--for=jsonpath={.status.moves.underWay}=false",
        "--timeout=240s"});
  EXPECT_NE(plan(".status.moves.for").find("/pair"), std::string::npos) << plan(".status.moves");
  EXPECT_EQ(plan(".status.nodesWanted"), "1") << plan(".status");
  EXPECT_NE(events().find("DivvyWouldMove: "), std::string::npos) << events();
  EXPECT_EQ(events().find("DivvyEvicted: "), std::string::npos) << events();
  defragment("on");
  must({"wait", "pod/pair", "--for=condition=Ready", "--timeout=240s"});
  EXPECT_NE(events().find("so that pod " + name_space() + "/pair finds its GPUs in one piece"),
            std::string::npos)
      << events();
  for (const std::string& name : stay) wait_for("deployment/" + name, "condition=Available");
  expect_nothing_overbooked();
  must({"delete", "deployments,pods", "--all", "--timeout=120s"});
  expect_nothing_left();
}

}  // namespace
}  // namespace divvy::testing
