// Two controllers that both decide and write, on a real cluster: one that stood still past the end
// of its lease and comes back, and one that leads by a lease of its own all the time. Whatever they
// write, no node ever holds more of a GPU than it has, every pod runs, and nothing is left.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class KubeControllers : public KubeSlices {
 protected:
  // Whoever holds the lease: a pod of the Deployment.
  std::string leader() {
    const std::string holder = must({"get", "lease", "divvy-controller", "--namespace",
                                     "divvy-system", "-o", "jsonpath={.spec.holderIdentity}"});
    return holder.substr(0, holder.find('_'));
  }
  // Signals the controller in a pod, from its node: nobody in the pod could.
  void signal(const std::string& pod, const std::string& what) {
    const std::string node =
        must({"get", "pod", pod, "--namespace", "divvy-system", "-o", "jsonpath={.spec.nodeName}"});
    const std::string uid =
        must({"get", "pod", pod, "--namespace", "divvy-system", "-o", "jsonpath={.metadata.uid}"});
    const std::string script = fmt::format(
        "for p in /proc/[0-9]*; do grep -q {} $p/cgroup 2>/dev/null && "
        "grep -qa -e --engine=kubernetes $p/cmdline && kill -{} ${{p#/proc/}} && exit 0; done; "
        "exit 1",
        uid, what);
    const Outcome sent = cluster({"shell", node, "sh", "-c", script});
    ASSERT_EQ(sent.status, 0) << "no controller in " << pod << " on " << node << sent.err;
  }
  json::array pods(const std::string& prefix, int count) const {
    json::array made;
    for (int i = 0; i < count; ++i) {
      made.push_back(pod_document(fmt::format("{}-{}", prefix, i),
                                  gpuload(i % 3 == 0 ? "0.3" : "0.5", {"sleep", "infinity"})));
    }
    return made;
  }
  std::size_t running(const std::string& prefix) {
    std::size_t count = 0;
    for (const json::value& pod : get_all("pods")) {
      if (text_at(pod, "/metadata/name").starts_with(prefix) &&
          text_at(pod, "/status/phase") == "Running") {
        ++count;
      }
    }
    return count;
  }
  bool any_allocated() {
    return std::ranges::any_of(get_all("resourceclaims"), [](const json::value& claim) {
      boost::system::error_code wrong;
      return claim.find_pointer("/status/allocation", wrong) != nullptr;
    });
  }
};

TEST_F(KubeControllers, OneThatStoodStillPastItsLeaseWritesNothingThatCounts) {
  const std::string first = leader();
  ASSERT_FALSE(first.empty());
  // It stops in the middle of a burst, with more to write.
  ASSERT_EQ(apply_all(pods("early", 8)).status, 0);
  ASSERT_TRUE(eventually([&] { return any_allocated(); }));
  signal(first, "STOP");
  ASSERT_TRUE(eventually([&] { return leader() != first && !leader().empty(); }));
  const std::string second = leader();
  // The next one goes on with what was begun, and gives away what the first one may think is free.
  ASSERT_TRUE(eventually([&] { return running("early") == 8; }));
  must({"delete", "pod", "early-1", "early-2", "--timeout=120s"});
  // The API server may still ask the one that stands still to look at pods.
  ASSERT_TRUE(eventually([&] { return apply_all(pods("late", 2)).status == 0; }));
  ASSERT_TRUE(eventually([&] { return running("late") == 2; }));
  expect_nothing_overbooked();

  signal(first, "CONT");
  // It answers the webhook again, so it has noticed by then that it does not lead.
  must({"wait", "pod/" + first, "--namespace", "divvy-system", "--for=condition=Ready",
        "--timeout=120s"});
  ASSERT_TRUE(eventually([&] {
    return must({"logs", first, "--namespace", "divvy-system"}).find("does not lead any more") !=
           std::string::npos;
  }));
  EXPECT_EQ(leader(), second);
  expect_nothing_overbooked();
  EXPECT_EQ(running("early"), 6U);
  EXPECT_EQ(running("late"), 2U);
  EXPECT_EQ(held(), 8U);
  must({"delete", "pods", "--all", "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeControllers, TwoThatBothLeadGiveNothingTwice) {
  // The same program with the same rights, and a lease in this namespace.
  must({"create", "role", "twin", "--verb=get,create,update",
        "--resource=leases.coordination.k8s.io"});
  must({"create", "rolebinding", "twin", "--role=twin",
        "--serviceaccount=divvy-system:divvy-controller"});
  PodOptions options = gpuload("", {"/opt/divvy/bin/divvyd", "--foreground", "--engine=kubernetes",
                                    "--namespace=" + name_space()});
  options.spec["serviceAccountName"] = "divvy-controller";
  options.container["securityContext"] = json::object{{"runAsUser", 65532}};
  json::object twin = pod_document("twin", options);
  twin["metadata"].as_object()["namespace"] = "divvy-system";
  const std::string file = (folder() / "twin.json").string();
  std::ofstream(file) << json::serialize(twin);
  kubectl({"delete", "pod", "twin", "--namespace", "divvy-system", "--ignore-not-found"});
  must({"create", "--namespace", "divvy-system", "-f", file});
  ASSERT_TRUE(eventually([&] {
    return kubectl({"logs", "twin", "--namespace", "divvy-system"})
               .out.find("this controller leads") != std::string::npos;
  }));

  // Twice as many as there is room for; as some end, others get their place.
  json::array burst;
  for (int i = 0; i < 24; ++i) {
    burst.push_back(
        pod_document(fmt::format("pod-{}", i),
                     gpuload(i % 3 == 0 ? "0.3" : "0.5", {"sh", "-c", "gpuload info; sleep 1"})));
  }
  ASSERT_EQ(apply_all(std::move(burst)).status, 0);
  ASSERT_TRUE(eventually([&] {
    expect_nodes_hold_no_more_than_they_have();
    const json::array now = get_all("pods");
    return HasFailure() || std::ranges::all_of(now, [](const json::value& pod) {
             return text_at(pod, "/status/phase") == "Succeeded";
           });
  }));
  must({"delete", "pod", "twin", "--namespace", "divvy-system", "--timeout=60s"});
  for (const json::value& pod : get_all("pods")) {
    const std::string name = text_at(pod, "/metadata/name");
    const std::int64_t bytes = number_at(report(name), "/memory/device_total_bytes");
    EXPECT_GT(bytes, 0) << name;
    EXPECT_LT(bytes, 72 * kGiB) << name;
  }
  expect_nothing_overbooked();
  must({"delete", "pods", "--all", "--timeout=120s"});
  expect_nothing_left();
}

}  // namespace
}  // namespace divvy::testing
