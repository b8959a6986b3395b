// A test on the cluster that the fixture `kube_cluster` of ctest has made (tests/kube/fixture):
// every test has a namespace of its own, which goes away with it, and asks the cluster by kubectl.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "../divvyd_machine.h"

namespace divvy::testing {

// What differs between the pods of these tests.
struct PodOptions {
  std::string image = "localhost/busybox:1";
  std::vector<std::string> command = {"sleep", "infinity"};
  std::string node = {};  // Empty: the scheduler's choice
  std::vector<std::pair<std::string, std::string>> annotations = {};  // "divvy.dev/gpu", "0.3"
  std::vector<std::pair<std::string, std::string>> labels = {};
  std::string restart_policy = "Never";
  std::vector<std::pair<std::string, std::string>> limits = {};  // of the container's resources
  boost::json::object container = {};                            // what else the container has
  boost::json::object spec = {};                                 // what else the pod has
};
// As JSON, for apply().
[[nodiscard]] boost::json::object pod_document(const std::string& name, const PodOptions& options);

// At a JSON pointer ("/status/phase"); empty or -1 where there is none.
[[nodiscard]] std::string text_at(const boost::json::value& object, std::string_view pointer);
[[nodiscard]] std::int64_t number_at(const boost::json::value& object, std::string_view pointer);

class KubeCluster : public ::testing::Test {
 protected:
  // Skips where there is no cluster, unless there has to be one (CI).
  void SetUp() override;
  void TearDown() override;

  // In the test's namespace, unless the words name another.
  Outcome kubectl(const std::vector<std::string>& words);
  // As before; the test fails where the command does.
  std::string must(const std::vector<std::string>& words);
  // An object as the API server has it now, or all of a kind.
  boost::json::object get(const std::string& kind, const std::string& name);
  boost::json::array get_all(const std::string& kind, bool all_namespaces = false);
  // A program on a machine of the cluster ("node-1"): tools/kube-cluster's `stop` and `start`.
  Outcome cluster(const std::vector<std::string>& words);

  // A document, or many at once.
  Outcome apply(const boost::json::value& object);
  Outcome apply_all(boost::json::array objects);
  Outcome create_pod(const std::string& name, const PodOptions& options = {});
  // Waits for the event itself, as `kubectl wait` does: "condition=Ready",
  // "jsonpath={.status.phase}=Succeeded", "delete".
  void wait_for(const std::string& object, const std::string& what);
  // Until it is gone from the API server, which is after its node has cleaned up.
  void delete_pod(const std::string& name);

  // Any program, with the administrator's kubeconfig.
  Outcome run(std::vector<std::string> command);

  [[nodiscard]] const std::string& name_space() const { return namespace_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::string namespace_;
  int serial_ = 0;
};

}  // namespace divvy::testing
