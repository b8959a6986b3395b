// What the tests of the controller's queue have in common: two nodes with a GPU each, one
// controller, and what is to be seen of pods from outside. Only for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "kube/cluster_queue.h"
#include "kube/cluster_testing.h"
#include "kube/json_view.h"
#include "kube/object_names.h"

namespace divvy::kube::testing {

class ClusterQueueTest : public ::testing::Test {
 protected:
  std::string node_of(const std::string& pod) {
    const auto claim = cluster_.claim(pod);
    if (!claim) return "";
    const auto allocation = read_allocation(*claim);
    return allocation && *allocation ? (*allocation)->node : "";
  }
  bool gated(const std::string& pod) {
    return !array_at(*cluster_.pod(pod), {"spec", "schedulingGates"}).empty();
  }
  // The condition of ours: "False Full: ..."
  std::string condition(const std::string& pod) {
    const boost::json::object document = *cluster_.pod(pod);
    for (const boost::json::value& one : array_at(document, {"status", "conditions"})) {
      const boost::json::object& condition = one.as_object();
      if (text_at(condition, {"type"}) != kPlacedCondition) continue;
      return fmt::format("{} {}: {}", text_at(condition, {"status"}),
                         text_at(condition, {"reason"}), text_at(condition, {"message"}));
    }
    return "";
  }
  std::vector<std::string> events(const std::string& space = "team-a") {
    std::vector<std::string> told;
    for (const boost::json::object& event : cluster_.api().list("/api/v1/events")) {
      if (text_at(event, {"metadata", "namespace"}) != space) continue;
      told.push_back(fmt::format("{} {}", text_at(event, {"reason"}),
                                 text_at(event, {"involvedObject", "name"})));
    }
    std::ranges::sort(told);
    return told;
  }
  void run(const std::string& pod, const std::string& gpu = "0.5") {
    cluster_.create_pod({.name = pod, .gpu = gpu});
    controller_.work();
    cluster_.settle();
    controller_.work();
    ASSERT_EQ(cluster_.phase(pod), "Running");
  }
  // For metadata of pods: somebody makes them anew.
  boost::json::object owned_by(const std::string& version, const std::string& kind,
                               const std::string& name, boost::json::object metadata = {}) {
    // Of any object that is there: what has no living owner is deleted.
    const std::string uid(
        text_at(*cluster_.api().get("/api/v1/namespaces/team-a"), {"metadata", "uid"}));
    metadata["ownerReferences"] = boost::json::array{boost::json::object{{"apiVersion", version},
                                                                         {"kind", kind},
                                                                         {"name", name},
                                                                         {"uid", uid},
                                                                         {"controller", true}}};
    return metadata;
  }
  void wait(Duration time) {
    cluster_.clock().advance(time);
    cluster_.report_nodes();
  }

  SimulatedCluster cluster_{2, 1};
  TestController controller_{cluster_, 1};
};

}  // namespace divvy::kube::testing
