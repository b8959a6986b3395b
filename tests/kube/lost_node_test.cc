// A node that is lost while pods have slices of it. It is a fake one: kwok plays its kubelet, and
// this test its node agent, so it can go and come back without a word. What its pods had is not
// free until Kubernetes has no claim for it and the node says that it let go.
#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

constexpr const char* kNode = "kwok-1";

class KubeLostNode : public KubeSlices {
 protected:
  void SetUp() override {
    KubeSlices::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    remove();
    ASSERT_EQ(cluster({"start", "control", "kwok"}).status, 0);
    ASSERT_EQ(apply(json::parse(R"({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "kwok-1", "annotations": {"kwok.x-k8s.io/node": "fake"},
                     "labels": {"kubernetes.io/hostname": "kwok-1", "test": "lost-node"}},
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "effect": "NoSchedule"}]}})"))
                  .status,
              0);
    wait_for("node/kwok-1", "condition=Ready");
    report_node({});
  }
  void TearDown() override {
    if (!IsSkipped()) {
      kubectl({"label", "node", "node-1", "test-"});
      kubectl(
          {"delete", "deployments,pods", "--all", "--force", "--grace-period=0", "--timeout=60s"});
      remove();
    }
    KubeSlices::TearDown();
  }
  void remove() {
    cluster({"stop", "control", "kwok"});
    kubectl({"delete", "node,gpunode", kNode, "--ignore-not-found", "--timeout=60s"});
  }

  // What an agent would write: two GPUs, and what it holds.
  void report_node(const json::array& held) {
    json::object status = get("gpunode", "node-1").at("status").as_object();
    status["held"] = held;
    status["heartbeat"] = fmt::format(
        "{:%FT%TZ}", std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
    json::object& state = status["state"].as_object();
    state["node"] = kNode;
    int number = 0;
    for (json::value& gpu : state["gpus"].as_array()) {
      gpu.as_object()["uuid"] = fmt::format("GPU-00000000-0000-4000-8000-00000000000{}", ++number);
    }
    if (kubectl({"get", "gpunode", kNode}).status != 0) {
      ASSERT_EQ(apply(json::object{{"apiVersion", "divvy.dev/v1"},
                                   {"kind", "GpuNode"},
                                   {"metadata", json::object{{"name", kNode}}}})
                    .status,
                0);
    }
    json::object node = get("gpunode", kNode);
    node["status"] = std::move(status);
    const std::string file = (folder() / "lost-node.json").string();
    std::ofstream(file) << json::serialize(node);
    must({"replace", "--subresource=status", "-f", file});
  }
  // As an agent says what it holds for a claim.
  static json::object held_for(const json::object& claim) {
    return {{"claimUid", text_at(claim, "/metadata/uid")},
            {"namespace", text_at(claim, "/metadata/namespace")},
            {"claim", text_at(claim, "/metadata/name")},
            {"pod", text_at(claim, "/metadata/ownerReferences/0/uid")},
            {"slices", json::array{claim_parameters(claim)}}};
  }
  static json::value claim_parameters(const json::object& claim) {
    return json::value(claim).at_pointer("/status/allocation/devices/config/0/opaque/parameters");
  }
  static std::string gpu_of(const json::object& claim) {
    return text_at(claim_parameters(claim), "/gpu");
  }

  // Tolerates fake nodes.
  PodOptions asks(const std::string& share) const {
    PodOptions options = gpuload(share, {"sleep", "infinity"});
    options.spec["nodeSelector"] = json::object{{"kubernetes.io/hostname", kNode}};
    options.spec["tolerations"] =
        json::parse(R"([{"key": "kwok.x-k8s.io/node", "operator": "Exists"}])");
    return options;
  }
  // Goes to nodes with the label, and does not outlive its node for long.
  PodOptions asks_anywhere(const std::string& share) const {
    PodOptions options = asks(share);
    options.spec["nodeSelector"] = json::object{{"test", "lost-node"}};
    for (const char* what : {"unreachable", "not-ready"}) {
      options.spec["tolerations"].as_array().push_back(
          json::object{{"key", fmt::format("node.kubernetes.io/{}", what)},
                       {"operator", "Exists"},
                       {"effect", "NoExecute"},
                       {"tolerationSeconds", 1}});
    }
    return options;
  }
  bool gated(const std::string& pod) {
    return !must({"get", "pod", pod, "-o", "jsonpath={.spec.schedulingGates}"}).empty();
  }
  std::string node_of(const std::string& pod) {
    return must({"get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"});
  }
  std::vector<std::string> models() {
    std::vector<std::string> names;
    for (const json::value& pod : get_all("pods")) {
      const std::string name = text_at(pod, "/metadata/name");
      if (name.starts_with("model-")) names.push_back(name);
    }
    return names;
  }
};

TEST_F(KubeLostNode, WhatItsPodsHadIsNotFreeUntilKubernetesAndTheNodeSaySo) {
  PodOptions options = asks_anywhere("1");
  options.labels = {{"app", "model"}};
  options.restart_policy = "Always";
  json::object model = pod_document("model", options);
  // Without it Kubernetes would not wait for a word of the node.
  model["spec"].as_object()["terminationGracePeriodSeconds"] = 30;
  model.erase("apiVersion");
  model.erase("kind");
  ASSERT_EQ(apply(json::object{{"apiVersion", "apps/v1"},
                               {"kind", "Deployment"},
                               {"metadata", json::object{{"name", "model"}}},
                               {"spec", json::object{{"replicas", 1},
                                                     {"selector", json::parse(R"(
                                        {"matchLabels": {"app": "model"}})")},
                                                     {"template", std::move(model)}}}})
                .status,
            0);
  wait_for("deployment/model", "condition=Available");
  const std::string first = models().at(0);
  ASSERT_EQ(node_of(first), kNode);
  const json::object claim = claim_of(first);
  report_node({held_for(claim)});
  // Both GPUs of that node, of which one is taken.
  ASSERT_EQ(create_pod("both", asks("2")).status, 0);
  wait_for("pod/both",
           "jsonpath={.status.conditions[?(@.type==\"divvy.dev/Placed\")].status}=False");

  // Nobody answers for the node any more. Kubernetes notices, and wants the pod to go, which
  // nobody there can confirm.
  ASSERT_EQ(cluster({"stop", "control", "kwok"}).status, 0);
  must({"wait", "node/kwok-1", "--for=condition=Ready=Unknown", "--timeout=180s"});
  ASSERT_TRUE(eventually([&] {
    return !must({"get", "pod", first, "-o", "jsonpath={.metadata.deletionTimestamp}"}).empty();
  }));
  // Its Deployment has made another one, which waits: no other node will do yet, and the slice of
  // the first is as taken as before.
  ASSERT_TRUE(eventually([&] { return models().size() == 2; }));
  const std::vector<std::string> names = models();
  const std::string next = names[0] == first ? names[1] : names[0];
  wait_for("pod/" + next,
           "jsonpath={.status.conditions[?(@.type==\"divvy.dev/Placed\")].status}=False");
  EXPECT_TRUE(gated(next));
  EXPECT_TRUE(gated("both"));
  EXPECT_EQ(gpu_of(claim_of(first)), gpu_of(claim));

  // It runs where there is a node for it.
  must({"label", "node", "node-1", "test=lost-node"});
  wait_for("pod/" + next, "condition=Ready");
  EXPECT_EQ(node_of(next), "node-1");
  EXPECT_EQ(gpu_of(claim_of(first)), gpu_of(claim)) << "it is still taken";
  expect_nothing_overbooked();

  // Somebody says that it is over: pod and claim are gone, and the node still has the slice.
  must({"delete", "pod", first, "--force", "--grace-period=0"});
  ASSERT_TRUE(eventually([&] {
    return kubectl({"get", "resourceclaim", text_at(claim, "/metadata/name")}).status != 0;
  }));
  ASSERT_EQ(cluster({"start", "control", "kwok"}).status, 0);
  wait_for("node/kwok-1", "condition=Ready");
  report_node({held_for(claim)});
  // One more comes to that node, so the controller goes on there; it gets the other GPU.
  ASSERT_EQ(create_pod("half", asks("0.5")).status, 0);
  wait_for("pod/half", "condition=Ready");
  EXPECT_NE(gpu_of(claim_of("half")), gpu_of(claim));
  EXPECT_TRUE(gated("both"));
  delete_pod("half");
  EXPECT_TRUE(gated("both")) << "the node has not let go";

  report_node({});
  wait_for("pod/both", "condition=Ready");
  EXPECT_EQ(node_of("both"), kNode);
  expect_nothing_overbooked();
}

}  // namespace
}  // namespace divvy::testing
