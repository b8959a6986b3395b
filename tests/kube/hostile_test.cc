// What somebody with edit rights in a namespace can try against Divvy, on a real cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class KubeHostile : public KubeSlices {
 protected:
  void SetUp() override {
    KubeSlices::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    must({"create", "serviceaccount", "mallory"});
    must({"create", "rolebinding", "mallory", "--clusterrole=edit",
          "--serviceaccount=" + name_space() + ":mallory"});
    ASSERT_TRUE(eventually([&] { return as({"auth", "can-i", "create", "pods"}).out == "yes\n"; }));
  }

  Outcome as(std::vector<std::string> words) {
    words.insert(words.begin(), fmt::format("--as=system:serviceaccount:{}:mallory", name_space()));
    return kubectl(words);
  }
  Outcome apply_as(const json::object& object) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / fmt::format("kube-hostile-{}.json", ::getpid());
    std::ofstream(file) << json::serialize(object);
    Outcome outcome = as({"create", "-f", file.string()});
    std::filesystem::remove(file);
    return outcome;
  }
  static void expect_refused(const Outcome& outcome, std::string_view why) {
    EXPECT_NE(outcome.status, 0) << outcome.out;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  }
  void run_victim() {
    ASSERT_EQ(create_pod("victim", gpuload("0.4", {"sleep", "infinity"})).status, 0);
    wait_for("pod/victim", "condition=Ready");
    claim_ = text_at(claim_of("victim"), "/metadata/name");
    ASSERT_TRUE(claim_.starts_with("divvy-"));
  }

  std::string claim_;
};

TEST_F(KubeHostile, AForgedRequestSaysNoMoreThanAPodCanAskFor) {
  PodOptions options = gpuload("0.1", {"gpuload", "info"});
  // A whole GPU, beside a tenth that is asked for.
  options.annotations.emplace_back(
      "divvy.dev/request",
      R"({"version":1,"dialect":"divvy","containers":["main"],"spec":{"gpu":"1"}})");
  ASSERT_EQ(apply_as(pod_document("forged", options)).status, 0);
  wait_for("pod/forged", "jsonpath={.status.phase}=Succeeded");
  EXPECT_LT(number_at(report("forged"), "/memory/device_total_bytes"), 15 * kGiB);
}

TEST_F(KubeHostile, WhatAPodAsksForCannotBeChangedLater) {
  run_victim();
  expect_refused(as({"annotate", "pod", "victim", "--overwrite", "divvy.dev/request={}"}),
                 "what a pod asks for cannot be changed");
}

TEST_F(KubeHostile, AGateIsRemovedByDivvyAlone) {
  PodOptions options = gpuload("64", {"sleep", "infinity"});
  ASSERT_EQ(apply_as(pod_document("waits", options)).status, 0);
  wait_for("pod/waits",
           "jsonpath={.status.conditions[?(@.type==\"divvy.dev/Placed\")].status}=False");
  expect_refused(as({"patch", "pod", "waits", "--type=json", "-p",
                     R"([{"op":"remove","path":"/spec/schedulingGates/0"}])"}),
                 "Divvy removes \"divvy.dev/queue\" when the pod has its place");
}

TEST_F(KubeHostile, TheClaimOfAnotherPodIsNotToBeHad) {
  run_victim();
  PodOptions options{.image = image_, .command = {"gpuload", "info"}};
  options.spec["resourceClaims"] =
      json::array{json::object{{"name", "mine"}, {"resourceClaimName", claim_}}};
  options.container["resources"] =
      json::object{{"claims", json::array{json::object{{"name", "mine"}}}}};
  expect_refused(apply_as(pod_document("thief", options)), "divvy-");
  // As the entry that the webhook itself makes it is replaced, and without a request refused.
  options.spec["resourceClaims"] =
      json::array{json::object{{"name", "divvy"}, {"resourceClaimName", claim_}}};
  options.container["resources"] =
      json::object{{"claims", json::array{json::object{{"name", "divvy"}}}}};
  expect_refused(apply_as(pod_document("thief", options)), "divvy");
}

TEST_F(KubeHostile, ClaimsWithNamesOfDivvysAndAllocationsAreWrittenByDivvyAlone) {
  const json::object claim = {
      {"apiVersion", "resource.k8s.io/v1"},
      {"kind", "ResourceClaim"},
      {"metadata", json::object{{"name", "divvy-aaaaaaaaaaaaaaaaaaaa"}}},
      {"spec",
       json::object{{"devices",
                     json::object{{"requests", json::array{json::object{
                                                   {"name", "gpu"},
                                                   {"exactly", json::object{{"deviceClassName",
                                                                             "divvy.dev"}}}}}}}}}}};
  // Claims are not among the things that edit rights are for, in any case.
  EXPECT_NE(apply_as(claim).status, 0);
  run_victim();
  expect_refused(as({"patch", "resourceclaim", claim_, "--subresource=status", "--type=merge", "-p",
                     R"({"status":{"allocation":null}})"}),
                 "forbidden");
  // With rights on claims, but not on allocations.
  must({"create", "role", "claims", "--verb=get,create,update,patch", "--resource=resourceclaims"});
  must({"create", "rolebinding", "claims", "--role=claims",
        "--serviceaccount=" + name_space() + ":mallory"});
  ASSERT_TRUE(
      eventually([&] { return as({"auth", "can-i", "create", "resourceclaims"}).out == "yes\n"; }));
  expect_refused(apply_as(claim),
                 "names that begin with \"divvy-\" are for claims that Divvy makes");
  expect_refused(as({"patch", "resourceclaim", claim_, "--subresource=status", "--type=merge", "-p",
                     R"({"status":{"allocation":null}})"}),
                 "forbidden");
}

TEST_F(KubeHostile, WhatNodesHaveIsToldByTheirAgentsAlone) {
  expect_refused(as({"patch", "gpunode", "node-1", "--subresource=status", "--type=merge", "-p",
                     R"({"status":{"held":[]}})"}),
                 "forbidden");
  // An agent's own token, on another node.
  const std::string token =
      must({"create", "token", "divvy-node", "--namespace", "divvy-system", "--bound-object-kind",
            "Node", "--bound-object-name", "node-1", "--bound-object-uid",
            must({"get", "node", "node-1", "-o", "jsonpath={.metadata.uid}"})});
  const std::string server =
      must({"config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"});
  const auto as_agent = [&](const std::string& node) {
    return kubectl({"--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server", server,
                    "--token", token.substr(0, token.find('\n')), "get", "--raw",
                    "/apis/divvy.dev/v1/gpunodes/" + node});
  };
  // Reading is allowed; writing goes through the policy of the chart.
  EXPECT_EQ(as_agent("node-2").status, 0);
  const Outcome wrote =
      kubectl({"--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server", server,
               "--token", token.substr(0, token.find('\n')), "replace", "--raw",
               "/apis/divvy.dev/v1/gpunodes/node-2/status", "-f", [&] {
                 const std::string file =
                     (std::filesystem::temp_directory_path() / "kube-hostile-node.json").string();
                 std::ofstream(file) << json::serialize(get("gpunode", "node-2"));
                 return file;
               }()});
  expect_refused(wrote, "a node agent may write the GpuNode of its own node only");
}

// hostPath is what Kubernetes' own admission forbids: with it a pod has the node, and Divvy's
// sockets with it. A pod with a slice needs none of it.
TEST_F(KubeHostile, ASliceNeedsNothingThatTheRestrictedProfileForbids) {
  must({"label", "namespace", name_space(), "pod-security.kubernetes.io/enforce=restricted"});
  PodOptions options = gpuload("0.2", {"gpuload", "info"});
  options.spec["volumes"] = json::array{
      json::object{{"name", "run"}, {"hostPath", json::object{{"path", "/run/divvy"}}}}};
  expect_refused(apply_as(pod_document("mounts", options)), "hostPath");
  options.spec.erase("volumes");
  options.spec["securityContext"] =
      json::object{{"runAsNonRoot", true},
                   {"runAsUser", 1234},
                   {"seccompProfile", json::object{{"type", "RuntimeDefault"}}}};
  options.container["securityContext"] =
      json::object{{"allowPrivilegeEscalation", false},
                   {"capabilities", json::object{{"drop", json::array{"ALL"}}}}};
  const Outcome made = apply_as(pod_document("restricted", options));
  ASSERT_EQ(made.status, 0) << made.err;
  wait_for("pod/restricted", "jsonpath={.status.phase}=Succeeded");
  EXPECT_LT(number_at(report("restricted"), "/memory/device_total_bytes"), 30 * kGiB);
}

}  // namespace
}  // namespace divvy::testing
