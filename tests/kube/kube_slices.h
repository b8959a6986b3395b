// A test on the cluster with Divvy on it (fixture `kube_divvy`): pods that ask for slices, and what
// the programs in them, the claims and the nodes say.
#pragma once

#include <map>

#include "kube_cluster.h"

namespace divvy::testing {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

class KubeSlices : public KubeCluster {
 protected:
  void SetUp() override;

  // A pod of the image that was installed, with the annotation divvy.dev/gpu; empty: with none.
  [[nodiscard]] PodOptions gpuload(const std::string& share, std::vector<std::string> words) const;
  // Likewise of the first GPU of a node and no other, as HAMi's users say it: in per cent.
  [[nodiscard]] PodOptions gpuload_on(const std::string& node, int percent,
                                      std::vector<std::string> words);
  // What gpuload has written as JSON.
  boost::json::object report(const std::string& pod);
  // Claims of this test's namespace that the nodes of the cluster hold slices for.
  std::size_t held();
  // The claim of a pod, as the API server has it.
  boost::json::object claim_of(const std::string& pod);

  // What every GPU has to give is at least what claims say of it, and what nodes hold of it. Of the
  // whole cluster; the test fails where it is not so.
  void expect_nothing_overbooked();
  // Of the nodes alone: two controllers may write more than there is, until they notice.
  void expect_nodes_hold_no_more_than_they_have();
  // Nobody holds anything in this namespace: no claim, no slice on a node, no CDI file.
  void expect_nothing_left();

  // The name of a pod of Divvy's own, by its component ("node", "controller").
  std::string divvy_pod(const std::string& component, const std::string& node = {});

  std::string image_;
};

}  // namespace divvy::testing
