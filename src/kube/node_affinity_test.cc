#include "kube/node_affinity.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

bool admits_terms(const std::string& terms) {
  NodeFacts node{.object = {.space = "", .name = "gpu-1", .uid = "u", .version = 1, .created = {}}};
  node.labels = {{"zone", "a"}, {"rank", "7"}};
  const boost::json::value affinity = boost::json::parse(
      R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": )" +
      terms + "}}}");
  return admits(affinity.as_object(), node);
}

TEST(NodeAffinity, AdmitsWhatKubeSchedulerAdmits) {
  EXPECT_TRUE(admits({}, NodeFacts{.object = {}}));
  EXPECT_FALSE(admits_terms("[{}]")) << "a term without conditions is nobody's";
  for (const char* const good : {R"({"key": "zone", "operator": "In", "values": ["b", "a"]})",
                                 R"({"key": "zone", "operator": "NotIn", "values": ["b"]})",
                                 R"({"key": "none", "operator": "NotIn", "values": ["b"]})",
                                 R"({"key": "zone", "operator": "Exists"})",
                                 R"({"key": "none", "operator": "DoesNotExist"})",
                                 R"({"key": "rank", "operator": "Gt", "values": ["6"]})",
                                 R"({"key": "rank", "operator": "Lt", "values": ["8"]})"}) {
    const std::string term = std::string(R"({"matchExpressions": [)") + good + "]}";
    EXPECT_TRUE(admits_terms("[" + term + "]")) << good;
    EXPECT_TRUE(admits_terms("[{}, " + term + "]")) << "one of the terms is enough";
    // Each condition of a term has to hold.
    EXPECT_FALSE(admits_terms(std::string(R"([{"matchExpressions": [)") + good +
                              R"(, {"key": "zone", "operator": "DoesNotExist"}]}])"));
  }
  for (const char* const bad : {R"({"key": "zone", "operator": "In", "values": []})",
                                R"({"key": "none", "operator": "In", "values": ["a"]})",
                                R"({"key": "none", "operator": "Exists"})",
                                R"({"key": "zone", "operator": "Gt", "values": ["1"]})",
                                R"({"key": "rank", "operator": "Gt", "values": ["7"]})",
                                R"({"key": "zone", "operator": "Like", "values": ["a"]})"}) {
    EXPECT_FALSE(admits_terms(std::string(R"([{"matchExpressions": [)") + bad + "]}]")) << bad;
  }
  EXPECT_TRUE(admits_terms(
      R"([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}])"));
  EXPECT_FALSE(admits_terms(
      R"([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-2"]}]}])"));
}

}  // namespace
}  // namespace divvy::kube
