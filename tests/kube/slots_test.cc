// The second way: Divvy is told to give slices by slots (way=slots of the chart), pods run in their
// slices, and are told nothing of it. Afterwards the cluster goes by claims again.
#include <fmt/format.h>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class KubeSlots : public KubeSlices {
 protected:
  void SetUp() override {
    KubeSlices::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    go_by("slots");
  }
  void TearDown() override {
    if (!IsSkipped()) {
      // Before their agent does not look for them any more.
      kubectl({"delete", "pods", "--all", "--timeout=120s"});
      EXPECT_TRUE(eventually([&] { return held() == 0; }));
      go_by("claims");
    }
    KubeSlices::TearDown();
  }

  void go_by(const std::string& way) {
    ASSERT_EQ(cluster({"helm", "upgrade", "divvy", KUBE_CHART, "--namespace", "divvy-system",
                       "--reuse-values", "--set", "way=" + way, "--wait", "--timeout", "3m"})
                  .status,
              0);
    for (const char* what : {"daemonset/divvy-node", "deployment/divvy-controller"}) {
      must({"rollout", "status", what, "--namespace", "divvy-system", "--timeout=180s"});
    }
    // No replica of before answers the webhook any more.
    const std::string wanted = "--way=" + way;
    ASSERT_TRUE(eventually([&] {
      const std::string all =
          must({"get", "pods", "--namespace", "divvy-system", "--selector",
                "app.kubernetes.io/component=controller", "-o",
                "jsonpath={range .items[*]}{.spec.containers[0].args}{\"\\n\"}{end}"});
      std::size_t pods = 0;
      std::size_t right = 0;
      for (std::size_t at = 0; (at = all.find("--way=", at)) != std::string::npos; ++at) {
        ++pods;
        if (all.compare(at, wanted.size(), wanted) == 0) ++right;
      }
      return pods == 2 && right == 2;
    }));
    // A node without slots takes no pod that has one.
    ASSERT_TRUE(way != "slots" || eventually([&] {
                  for (const char* node : {"node-1", "node-2"}) {
                    if (must({"get", "node", node, "-o",
                              "jsonpath={.status.allocatable.divvy\\.dev/slot}"}) != "128") {
                      return false;
                    }
                  }
                  return true;
                }));
  }
  std::string allocation_of(const std::string& pod) {
    return must(
        {"get", "pod", pod, "-o", "jsonpath={.metadata.annotations.divvy\\.dev/allocation}"});
  }
};

TEST_F(KubeSlots, APodRunsInItsSlice) {
  ASSERT_EQ(create_pod("info", gpuload("0.25", {"gpuload", "info"})).status, 0);
  wait_for("pod/info", "jsonpath={.status.phase}=Succeeded");
  const json::object info = report("info");
  EXPECT_EQ(number_at(info, "/devices"), 1);
  EXPECT_LT(number_at(info, "/memory/device_total_bytes"), 40 * kGiB);
  EXPECT_NE(allocation_of("info").find(text_at(info, "/device/uuid")), std::string::npos);
  EXPECT_TRUE(get_all("resourceclaims").empty());
  // The kubelet says nothing of its end, and it is noticed all the same.
  EXPECT_TRUE(eventually([&] { return held() == 0; }));
}

TEST_F(KubeSlots, AContainerThatIsRestartedHasItsSliceAgain) {
  PodOptions options =
      gpuload("0.25", {"sh", "-c",
                       "gpuload --quiet spin --us 400 --seconds 0.2 || exit 2; "
                       "test -e /data/once && exec sleep infinity; touch /data/once; exit 1"});
  options.restart_policy = "Always";
  options.spec["volumes"] =
      json::array{json::object{{"name", "data"}, {"emptyDir", json::object{}}}};
  options.container["volumeMounts"] =
      json::array{json::object{{"name", "data"}, {"mountPath", "/data"}}};
  ASSERT_EQ(create_pod("again", options).status, 0);
  wait_for("pod/again", "jsonpath={.status.containerStatuses[0].restartCount}=1");
  wait_for("pod/again", "condition=Ready");
  EXPECT_EQ(held(), 1U);
  // The kubelet is started anew, and after it the container once more.
  ASSERT_EQ(cluster({"stop", "node-1", "kubelet"}).status, 0);
  ASSERT_EQ(cluster({"start", "node-1", "kubelet"}).status, 0);
  EXPECT_TRUE(eventually([&] {
    return must({"get", "node", "node-1", "-o",
                 "jsonpath={.status.allocatable.divvy\\.dev/slot}"}) == "128";
  }));
  EXPECT_EQ(must({"get", "pod", "again", "-o", "jsonpath={.status.phase}"}), "Running");
}

TEST_F(KubeSlots, APodWorksOnWhileItsNodeAgentIsReplaced) {
  PodOptions options =
      gpuload("0.5", {"gpuload", "loop", "--us", "400", "--kernels", "10", "--seconds", "3600"});
  options.node = "node-1";
  ASSERT_EQ(create_pod("works", options).status, 0);
  wait_for("pod/works", "condition=Ready");
  must({"delete", "pod", divvy_pod("node", "node-1"), "--namespace", "divvy-system",
        "--timeout=120s"});
  must({"rollout", "status", "daemonset/divvy-node", "--namespace", "divvy-system",
        "--timeout=120s"});
  options.command = {"gpuload", "info"};
  ASSERT_EQ(create_pod("after", options).status, 0);
  wait_for("pod/after", "jsonpath={.status.phase}=Succeeded");
  EXPECT_EQ(must({"get", "pod", "works", "-o",
                  "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"}),
            "Running 0");
  EXPECT_GE(held(), 1U);
}

TEST_F(KubeSlots, ABurstOfPodsRunsAndNothingIsLeft) {
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(create_pod(fmt::format("p{}", i), gpuload("0.5", {"gpuload", "--quiet", "spin",
                                                                "--us", "400", "--seconds", "0.5"}))
                  .status,
              0);
  }
  for (int i = 0; i < 16; ++i) {
    wait_for(fmt::format("pod/p{}", i), "jsonpath={.status.phase}=Succeeded");
  }
  kubectl({"delete", "pods", "--all"});
  expect_nothing_left();
}

TEST_F(KubeSlots, NobodyGivesHimselfASlice) {
  PodOptions options = gpuload("0.25", {"sleep", "infinity"});
  ASSERT_EQ(create_pod("mine", options).status, 0);
  wait_for("pod/mine", "condition=Ready");
  const Outcome changed =
      kubectl({"annotate", "pod", "mine", "--overwrite", "divvy.dev/allocation={}"});
  EXPECT_NE(changed.status, 0);
  EXPECT_NE(changed.err.find("only Divvy's controller writes it"), std::string::npos)
      << changed.err;
  options.annotations.emplace_back("divvy.dev/allocation", "{}");
  EXPECT_NE(create_pod("forged", options).status, 0);
}

}  // namespace
}  // namespace divvy::testing
