// One part of the cluster after the other is killed while a pod computes on its slice and others
// arrive: the one that runs goes on computing, without a restart, and those that arrive start as
// soon as the part is back.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

struct Part {
  const char* name;     // of the test
  const char* machine;  // "" for pods of Divvy's
  const char* program;
  bool api_answers;  // while it is away
};

std::ostream& operator<<(std::ostream& out, const Part& part) { return out << part.name; }

class KubeAvailability : public KubeSlices, public ::testing::WithParamInterface<Part> {
 protected:
  void TearDown() override {
    // The next test finds the cluster whole, whatever became of this one.
    for (const char* program :
         {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}) {
      cluster({"start", "control", program});
    }
    for (const char* program : {"containerd", "kubelet"}) cluster({"start", "node-1", program});
    KubeSlices::TearDown();
  }

  // Lines that the pod has written so far, into a volume of its own, read from the node's disk:
  // whoever could be asked may be away, and logs go through the container runtime.
  std::size_t lines_of(const std::string& pod) const {
    const fs::path volumes = folder() / "node-1/var/lib/kubelet/pods";
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(volumes, ignored)) {
      std::ifstream file(entry.path() / "volumes/kubernetes.io~empty-dir" /
                         fmt::format("{}-{}", pod, serial_) / "lines");
      if (!file) continue;
      return static_cast<std::size_t>(
          std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
    }
    return 0;
  }

  // The pod has computed on its GPU since now, twice.
  void expect_progress(const std::string& pod) {
    const std::size_t before = lines_of(pod);
    EXPECT_TRUE(eventually([&] { return lines_of(pod) >= before + 2; })) << pod << " stands still";
  }

  // Each line is a program that has computed on the GPU and ended.
  json::object worker(const std::string& name, const std::string& share) const {
    PodOptions options =
        gpuload(share, {"sh", "-c",
                        "while gpuload --quiet spin --us 400 --seconds 0.2; do echo done >> "
                        "/progress/lines; done"});
    options.node = "node-1";
    const std::string volume = fmt::format("{}-{}", name, serial_);
    options.spec["volumes"] =
        json::array{json::object{{"name", volume}, {"emptyDir", json::object()}}};
    options.container["volumeMounts"] =
        json::array{json::object{{"name", volume}, {"mountPath", "/progress"}}};
    return pod_document(name, options);
  }

  void kill(const Part& part) {
    if (*part.machine != '\0') {
      ASSERT_EQ(cluster({"stop", part.machine, part.program}).status, 0);
      return;
    }
    const std::string pod =
        divvy_pod(part.program, std::string(part.program) == "node" ? "node-1" : "");
    // kill -9, as far as a pod can be killed so.
    must({"delete", "pod", pod, "--namespace", "divvy-system", "--force", "--grace-period=0",
          "--wait=false"});
  }
  void restore(const Part& part) {
    if (*part.machine == '\0') return;
    ASSERT_EQ(cluster({"start", part.machine, part.program}).status, 0);
  }

  const int serial_ = ::getpid();  // its volumes are told from those of others by it
};

TEST_P(KubeAvailability, RunningPodsGoOnAndNewOnesStartWhenItIsBack) {
  const Part& part = GetParam();
  ASSERT_EQ(apply(worker("works", "0.4")).status, 0);
  wait_for("pod/works", "condition=Ready");
  expect_progress("works");

  kill(part);
  expect_progress("works");
  if (part.api_answers) {
    // A webhook that nobody answers is asked again by whoever makes pods.
    ASSERT_TRUE(eventually([&] { return apply(worker("arrives", "0.3")).status == 0; }));
    expect_progress("works");
  }
  restore(part);
  ASSERT_TRUE(eventually([&] { return kubectl({"get", "--raw", "/readyz"}).status == 0; }));
  if (!part.api_answers) {
    ASSERT_TRUE(eventually([&] { return apply(worker("arrives", "0.3")).status == 0; }));
  }
  wait_for("pod/arrives", "condition=Ready");
  expect_progress("arrives");
  expect_progress("works");
  EXPECT_EQ(must({"get", "pod", "works", "-o",
                  "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"}),
            "Running 0");
  expect_nothing_overbooked();
  // Both are given back as if nothing had been.
  for (const char* pod : {"works", "arrives"}) delete_pod(pod);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(All, KubeAvailability,
                         ::testing::Values(Part{"ApiServer", "control", "kube-apiserver", false},
                                           Part{"Etcd", "control", "etcd", false},
                                           Part{"Scheduler", "control", "kube-scheduler", true},
                                           Part{"ControllerManager", "control",
                                                "kube-controller-manager", true},
                                           Part{"Kubelet", "node-1", "kubelet", true},
                                           Part{"Containerd", "node-1", "containerd", true},
                                           Part{"NodeAgent", "", "node", true},
                                           Part{"Controller", "", "controller", true}),
                         [](const auto& one) { return std::string(one.param.name); });

class KubeHealth : public KubeSlices {
 protected:
  Outcome fault(const std::string& node, const std::string& gpu, const std::string& kind) {
    return cluster({"shell", node, "env", "DIVVY_SIM_STATE=/run/divvy/simulated-gpus", simgpu(node),
                    "fault", gpu, kind});
  }
  // The program as the agent has installed it on the node.
  std::string simgpu(const std::string& node) {
    const Outcome found = cluster(
        {"shell", node, "sh", "-c", "ls -d /var/lib/divvy/programs/*/bin/simgpu | head -1"});
    return found.out.substr(0, found.out.find('\n'));
  }
};

TEST_F(KubeHealth, APodOnAGpuThatFailsIsToldEvictedAndRunsElsewhere) {
  const json::object deployment = {
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", json::object{{"name", "model"}}},
      {"spec",
       json::object{{"replicas", 1},
                    {"selector", json::object{{"matchLabels", json::object{{"app", "model"}}}}},
                    {"template", [&] {
                       PodOptions options =
                           gpuload("1", {"sh", "-c", "gpuload info; exec sleep infinity"});
                       options.labels = {{"app", "model"}};
                       options.restart_policy = "Always";
                       json::object pod = pod_document("model", options);
                       pod.erase("apiVersion");
                       pod.erase("kind");
                       return pod;
                     }()}}}};
  ASSERT_EQ(apply(deployment).status, 0);
  wait_for("deployment/model", "condition=Available");
  const json::array before = get_all("pods");
  ASSERT_EQ(before.size(), 1U);
  const std::string first = text_at(before[0], "/metadata/name");
  const json::object claim = claim_of(first);
  const std::string gpu =
      text_at(claim, "/status/allocation/devices/config/0/opaque/parameters/gpu");
  const std::string node = text_at(before[0], "/spec/nodeName");
  const Outcome broken = fault(node, gpu, "lost");
  ASSERT_EQ(broken.status, 0) << broken.err;
  wait_for("pod/" + first, "delete");
  wait_for("deployment/model", "condition=Available");
  ASSERT_TRUE(eventually([&] {
    const json::array now = get_all("pods");
    return now.size() == 1 && text_at(now[0], "/metadata/name") != first &&
           text_at(now[0], "/status/phase") == "Running";
  }));
  const std::string second = text_at(get_all("pods")[0], "/metadata/name");
  EXPECT_NE(text_at(claim_of(second), "/status/allocation/devices/config/0/opaque/parameters/gpu"),
            gpu);
  EXPECT_NE(must({"get", "events", "-o", "jsonpath={.items[*].reason}"}).find("DivvyEvicted"),
            std::string::npos);
  EXPECT_EQ(fault(node, gpu, "clear").status, 0);
}

}  // namespace
}  // namespace divvy::testing
