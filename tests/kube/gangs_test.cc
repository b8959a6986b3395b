// Pods that start together, pods that make way, and teams that lend each other what they were
// promised, on the real cluster: two nodes with two GPUs each.
#include <fmt/format.h>

#include <algorithm>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class KubeGangs : public KubeSlices {
 protected:
  void TearDown() override {
    for (const std::string& queue : queues_) kubectl({"delete", "queue", queue});
    KubeSlices::TearDown();
  }

  // Sleeps on its slice.
  PodOptions holds(const std::string& share) const {
    return gpuload(share, {"sh", "-c", "gpuload info; exec sleep infinity"});
  }
  PodOptions member(const std::string& gang, int size) const {
    PodOptions options = holds("1");
    options.annotations.emplace_back("divvy.dev/gang", gang);
    options.annotations.emplace_back("divvy.dev/gang-size", std::to_string(size));
    return options;
  }
  // A Deployment, a Job: whoever makes pods anew.
  json::object owner(const std::string& version, const std::string& kind, const std::string& name,
                     PodOptions options, json::object spec) const {
    if (kind == "Deployment") {
      options.labels = {{"app", name}};
      options.restart_policy = "Always";
      spec["selector"] = json::object{{"matchLabels", json::object{{"app", name}}}};
    }
    json::object pod = pod_document(name, options);
    pod.erase("apiVersion");
    pod.erase("kind");
    pod.at("metadata").as_object().erase("name");
    spec["template"] = std::move(pod);
    return {{"apiVersion", version},
            {"kind", kind},
            {"metadata", json::object{{"name", name}}},
            {"spec", std::move(spec)}};
  }
  std::string placed(const std::string& pod) {
    return must({"get", "pod", pod, "-o",
                 "jsonpath={.status.conditions[?(@.type=='divvy.dev/Placed')].message}"});
  }
  std::string node_of(const std::string& pod) { return text_at(get("pod", pod), "/spec/nodeName"); }
  bool gated(const std::string& pod) {
    return !must({"get", "pod", pod, "-o", "jsonpath={.spec.schedulingGates[*].name}"}).empty();
  }
  void wait_until_told(const std::string& pod) {
    wait_for("pod/" + pod,
             "jsonpath={.status.conditions[?(@.type=='divvy.dev/Placed')].status}=False");
  }
  std::string events() {
    return must({"get", "events", "-o", "jsonpath={range .items[*]}{.reason}: {.message}\n{end}"});
  }
  std::size_t running(const std::string& selector) {
    const std::string names =
        must({"get", "pods", "--selector", selector, "--field-selector=status.phase=Running", "-o",
              "jsonpath={range .items[*]}{.metadata.name}\n{end}"});
    return static_cast<std::size_t>(std::count(names.begin(), names.end(), '\n'));
  }
  void make_queue(const std::string& name, const std::string& gpus) {
    ASSERT_EQ(apply(json::object{{"apiVersion", "divvy.dev/v1"},
                                 {"kind", "Queue"},
                                 {"metadata", json::object{{"name", name}}},
                                 {"spec", json::object{{"quota", json::object{{"gpus", gpus}}}}}})
                  .status,
              0);
    queues_.push_back(name);
    wait_for("queue/" + name, "jsonpath={.status.conditions[?(@.type=='Accepted')].status}=True");
  }

  std::vector<std::string> queues_;
};

TEST_F(KubeGangs, AGangOverTwoNodesWaitsSaysWhyStartsTogetherAndGoesOnWithoutOne) {
  // Three of the four GPUs are taken, so that one member would fit.
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(create_pod(name, holds("1")).status, 0);
    wait_for(fmt::format("pod/{}", name), "condition=Ready");
  }
  ASSERT_EQ(create_pod("rank-0", member("team", 2)).status, 0);
  wait_until_told("rank-0");
  EXPECT_NE(placed("rank-0").find("1 of 2 pods"), std::string::npos) << placed("rank-0");
  ASSERT_EQ(create_pod("rank-1", member("team", 2)).status, 0);
  for (const char* name : {"rank-0", "rank-1"}) {
    ASSERT_TRUE(eventually([&] { return placed(name).find("members fit") != std::string::npos; }))
        << placed(name);
    EXPECT_TRUE(gated(name)) << "although one GPU is free";
  }
  // One of the node that is full leaves, and makes room there for the second member.
  const bool a_is_alone = node_of("a") != node_of("b") && node_of("a") != node_of("c");
  const std::string leaves = a_is_alone ? "b" : "a";
  delete_pod(leaves);
  for (const char* name : {"rank-0", "rank-1"}) {
    wait_for(fmt::format("pod/{}", name), "condition=Ready");
  }
  EXPECT_NE(node_of("rank-0"), node_of("rank-1"));
  expect_nothing_overbooked();
  // One is lost: the other goes on, and the one that is made in its stead joins it.
  delete_pod("rank-1");
  EXPECT_EQ(text_at(get("pod", "rank-0"), "/status/phase"), "Running");
  ASSERT_EQ(create_pod("rank-1", member("team", 2)).status, 0);
  wait_for("pod/rank-1", "condition=Ready");
  EXPECT_EQ(number_at(get("pod", "rank-0"), "/status/containerStatuses/0/restartCount"), 0);
  must({"delete", "pods", "--all", "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeGangs, ADeploymentsPodMakesWayForAHigherPriorityAndBothAreTold) {
  ASSERT_EQ(apply(owner("apps/v1", "Deployment", "model", holds("1"), {{"replicas", 4}})).status,
            0);
  ASSERT_TRUE(eventually([&] { return running("app=model") == 4; }));
  PodOptions urgent = holds("1");
  urgent.annotations.emplace_back("divvy.dev/priority", "1000");
  ASSERT_EQ(create_pod("urgent", urgent).status, 0);
  wait_for("pod/urgent", "condition=Ready");
  // The Deployment makes another, which waits.
  ASSERT_TRUE(eventually([&] { return running("app=model") == 3 && get_all("pods").size() == 5; }));
  const std::string told = events();
  EXPECT_NE(told.find("DivvyEvicted: "), std::string::npos) << told;
  EXPECT_NE(told.find("whose priority is 1000"), std::string::npos) << told;
  EXPECT_NE(told.find("DivvyMakesRoom: "), std::string::npos) << told;
  expect_nothing_overbooked();
  // And the one that waited comes back when the urgent one has ended.
  delete_pod("urgent");
  ASSERT_TRUE(eventually([&] { return running("app=model") == 4; }));
  must({"delete", "deployment", "model", "--wait=false"});
  must({"delete", "pods", "--all", "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeGangs, ATeamBorrowsWhatAnotherWasPromisedAndGivesItBack) {
  make_queue("kube-lent", "2");
  make_queue("kube-asks", "2");
  const std::string other = name_space() + "2";
  kubectl({"delete", "namespace", other, "--ignore-not-found", "--timeout=120s"});
  must({"create", "namespace", other});
  must({"label", "namespace", name_space(), "divvy.dev/queue=kube-lent"});
  must({"label", "namespace", other, "divvy.dev/queue=kube-asks"});
  ASSERT_EQ(apply(owner("apps/v1", "Deployment", "busy", holds("1"), {{"replicas", 4}})).status, 0);
  ASSERT_TRUE(eventually([&] { return running("app=busy") == 4; }));
  wait_for("queue/kube-lent", "jsonpath={.status.borrowed.gpus}=2");
  // The other team wants what it was promised.
  for (const char* name : {"own-1", "own-2"}) {
    must({"run", name, "--namespace", other, "--image", image_, "--image-pull-policy=Never",
          "--restart=Never", "--annotations=divvy.dev/gpu=1", "--command", "--", "sleep",
          "infinity"});
  }
  for (const char* name : {"own-1", "own-2"}) {
    must({"wait", fmt::format("pod/{}", name), "--namespace", other, "--for=condition=Ready",
          "--timeout=120s"});
  }
  ASSERT_TRUE(eventually([&] { return running("app=busy") == 2; }));
  EXPECT_NE(events().find("queue kube-lent had borrowed"), std::string::npos) << events();
  wait_for("queue/kube-asks", "jsonpath={.status.held.gpus}=2");
  expect_nothing_overbooked();
  must({"delete", "deployment", "busy", "--wait=false"});
  must({"delete", "pods", "--all", "--timeout=120s"});
  must({"delete", "namespace", other, "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeGangs, AJobAnIndexedJobAndPlainPodsAllGetTheirTurn) {
  PodOptions short_work = gpuload("1", {"gpuload", "info"});
  ASSERT_EQ(create_pod("plain", short_work).status, 0);
  ASSERT_EQ(
      apply(owner("batch/v1", "Job", "each", short_work, {{"completions", 3}, {"parallelism", 3}}))
          .status,
      0);
  ASSERT_EQ(apply(owner("batch/v1", "Job", "together", short_work,
                        {{"completions", 4}, {"parallelism", 4}, {"completionMode", "Indexed"}}))
                .status,
            0);
  ASSERT_EQ(create_pod("last", short_work).status, 0);
  for (const char* job : {"job/each", "job/together"}) wait_for(job, "condition=Complete");
  for (const char* pod : {"pod/plain", "pod/last"}) {
    wait_for(pod, "jsonpath={.status.phase}=Succeeded");
  }
  expect_nothing_overbooked();
  must({"delete", "jobs", "--all", "--timeout=120s"});
  for (const char* pod : {"plain", "last"}) delete_pod(pod);
  expect_nothing_left();
}

}  // namespace
}  // namespace divvy::testing
