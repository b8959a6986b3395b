// The chart, as an operator uses it: its own test, an upgrade under a pod that computes, and an
// uninstallation that leaves nothing. Divvy is installed again at the end, for the tests after it.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

class KubeChart : public KubeSlices {
 protected:
  Outcome helm(std::vector<std::string> words) {
    words.insert(words.begin(), "helm");
    return cluster(words);
  }
  // With the image and the settings that it was installed with.
  Outcome upgrade(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"upgrade",     "divvy",        KUBE_CHART,
                                      "--namespace", "divvy-system", "--reuse-values",
                                      "--wait",      "--timeout",    "3m"};
    words.insert(words.end(), more.begin(), more.end());
    return helm(words);
  }
};

TEST_F(KubeChart, ItsTestGivesASliceToAPodAndComputesOnIt) {
  const Outcome tested = helm({"test", "divvy", "--namespace", "divvy-system", "--timeout", "2m"});
  EXPECT_EQ(tested.status, 0) << tested.out << tested.err;
  EXPECT_NE(tested.out.find("Phase:          Succeeded"), std::string::npos) << tested.out;
}

TEST_F(KubeChart, ValuesThatCannotBeAreRefusedWithTheirNames) {
  const Outcome refused = upgrade({"--dry-run=server", "--set", "dialects.nvidiaGpus=half"});
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("nvidiaGpus"), std::string::npos) << refused.err;
}

TEST_F(KubeChart, AnUpgradeLeavesPodsAlone) {
  const PodOptions options = gpuload(
      "0.5", {"sh", "-c",
              "while gpuload --quiet spin --us 400 --seconds 0.2; do echo done; done; exit 1"});
  ASSERT_EQ(create_pod("works", options).status, 0);
  wait_for("pod/works", "condition=Ready");
  const std::string before = divvy_pod("node", text_at(get("pod", "works"), "/spec/nodeName"));
  const Outcome upgraded = upgrade({"--set", "logLevel=debug", "--wait=false"});
  ASSERT_EQ(upgraded.status, 0) << upgraded.err;
  // Pods that arrive meanwhile start as ever: the new agent and the new controller stand ready
  // before the old ones are told to end.
  int arrived = 0;
  const auto is_old = [&] {
    return kubectl({"get", "pod", before, "--namespace", "divvy-system"}).status == 0;
  };
  while (is_old() || arrived < 3) {
    ASSERT_LT(arrived, 200) << "the old agent stays";
    const std::string name = fmt::format("arrives-{}", arrived++);
    ASSERT_EQ(create_pod(name, gpuload("0.1", {"gpuload", "info"})).status, 0);
    wait_for("pod/" + name, "jsonpath={.status.phase}=Succeeded");
    delete_pod(name);
  }
  std::cout << arrived << " pods started while Divvy was upgraded\n";
  for (const char* what : {"daemonset/divvy-node", "deployment/divvy-controller"}) {
    must({"rollout", "status", what, "--namespace", "divvy-system", "--timeout=120s"});
  }
  const std::size_t lines = must({"logs", "works"}).size();
  EXPECT_TRUE(eventually([&] { return must({"logs", "works"}).size() > lines; }));
  EXPECT_EQ(must({"get", "pod", "works", "-o",
                  "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"}),
            "Running 0");
  // The new controllers and agents give out slices, and take back those of the old ones.
  ASSERT_EQ(create_pod("after", gpuload("0.2", {"gpuload", "info"})).status, 0);
  wait_for("pod/after", "jsonpath={.status.phase}=Succeeded");
  for (const char* pod : {"works", "after"}) delete_pod(pod);
  expect_nothing_left();
  ASSERT_EQ(upgrade({"--set", "logLevel=info"}).status, 0);
}

TEST_F(KubeChart, WhatOperatorsAskForIsThere) {
  for (const char* name :
       {"poddisruptionbudget/divvy-controller", "networkpolicy/divvy-controller",
        "networkpolicy/divvy-node", "service/divvy-node-metrics", "service/divvy-webhook"}) {
    must({"get", name, "--namespace", "divvy-system"});
  }
  EXPECT_EQ(must({"get", "poddisruptionbudget", "divvy-controller", "--namespace", "divvy-system",
                  "-o", "jsonpath={.status.disruptionsAllowed}"}),
            "1");
  for (const char* what : {"daemonset/divvy-node", "deployment/divvy-controller"}) {
    EXPECT_TRUE(must({"get", what, "--namespace", "divvy-system", "-o",
                      "jsonpath={.spec.template.spec.priorityClassName}"})
                    .starts_with("system-"))
        << what;
  }
  // What this cluster has no objects for is rendered all the same.
  const Outcome rendered =
      helm({"template", "divvy", KUBE_CHART, "--namespace", "divvy-system", "--kube-version",
            "1.36.3", "--set", "serviceMonitor.enabled=true,serviceMonitor.labels.release=prom"});
  ASSERT_EQ(rendered.status, 0) << rendered.err;
  for (const char* part : {"kind: ServiceMonitor", "release: prom", "honorLabels: true",
                           "feature.node.kubernetes.io/pci-10de.present", "privileged: true"}) {
    EXPECT_NE(rendered.out.find(part), std::string::npos) << part;
  }
}

// After all others, by its name: it takes Divvy away for a while.
TEST_F(KubeChart, ZUninstallingLeavesNothing) {
  const Outcome values =
      helm({"get", "values", "divvy", "--namespace", "divvy-system", "-o", "json"});
  ASSERT_EQ(values.status, 0) << values.err;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("kube-values-{}.json", ::getpid());
  std::ofstream(file) << values.out;
  const Outcome gone = helm({"uninstall", "divvy", "--namespace", "divvy-system", "--wait"});
  ASSERT_EQ(gone.status, 0) << gone.err;
  for (const char* kind : {"pods", "secrets", "services", "leases.coordination.k8s.io"}) {
    EXPECT_TRUE(eventually([&] {
      return must({"get", kind, "--namespace", "divvy-system", "-o", "name"}).find("divvy") ==
             std::string::npos;
    })) << kind;
  }
  const std::string left =
      must({"get",
            "clusterroles,clusterrolebindings,deviceclasses,mutatingwebhookconfigurations,"
            "validatingwebhookconfigurations,validatingadmissionpolicies",
            "--selector", "app.kubernetes.io/name=divvy", "-o", "name"});
  EXPECT_EQ(left, "");
  // A pod starts without anybody in its way.
  ASSERT_EQ(create_pod("plain").status, 0);
  wait_for("pod/plain", "condition=Ready");
  const Outcome again = helm({"install", "divvy", KUBE_CHART, "--namespace", "divvy-system",
                              "--values", file.string(), "--wait", "--timeout", "3m"});
  std::filesystem::remove(file);
  EXPECT_EQ(again.status, 0) << again.err;
}

}  // namespace
}  // namespace divvy::testing
