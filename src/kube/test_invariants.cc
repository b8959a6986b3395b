// What must hold on the cluster of cluster_testing.h, whatever happens.
#include <boost/json.hpp>

#include "base/check.h"
#include "kube/cluster_testing.h"
#include "kube/json_view.h"

namespace divvy::kube::testing {
namespace {

namespace json = boost::json;

using Sums = std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::uint64_t>>;

// Where it stands what somebody was given, and what that is.
struct Entry {
  std::string key;
  bool over = false;  // it is of a pod that has ended
  Allocation allocation;
};

std::vector<Entry> all_given(const OneThreadApi& api) {
  std::vector<Entry> entries;
  const auto add = [&entries](const json::object& object, auto read, bool over) {
    auto allocation = read(object);
    DIVVY_CHECK(allocation.has_value(), "{}", allocation.error().message);
    if (!*allocation) return;
    entries.push_back({fmt::format("{}/{}", text_at(object, {"metadata", "namespace"}),
                                   text_at(object, {"metadata", "name"})),
                       over, **std::move(allocation)});
  };
  for (const json::object& claim : api.list("/apis/resource.k8s.io/v1/resourceclaims")) {
    add(claim, read_allocation, false);
  }
  for (const json::object& pod : api.list("/api/v1/pods")) {
    const std::string_view phase = text_at(pod, {"status", "phase"});
    add(pod, read_allocation_annotation, phase == "Succeeded" || phase == "Failed");
  }
  return entries;
}

void count(Sums& sums, const std::string& node, const std::vector<AllocatedSlice>& slices) {
  for (const AllocatedSlice& one : slices) {
    auto& sum = sums[{node, one.slice.gpu().str()}];
    sum.first += one.slice.share().thousandths();
    sum.second += one.slice.memory().count();
  }
}

std::optional<std::string> overbooked(const Sums& sums) {
  for (const auto& [where, sum] : sums) {
    if (sum.first > Share::kWhole || sum.second > gib(100).count()) {
      return fmt::format("{} thousandths and {} bytes on {} of {}", sum.first, sum.second,
                         where.second, where.first);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> SimulatedCluster::overbooked_claims() const {
  Sums sums;
  for (const Entry& entry : all_given(api_)) {
    if (!entry.over) count(sums, entry.allocation.node, entry.allocation.slices);
  }
  return overbooked(sums);
}

std::optional<std::string> SimulatedCluster::overbooked_ledgers() const {
  Sums sums;
  for (const auto& [node, machine] : machines_) {
    for (const auto& [uid, held] : machine.ledger) count(sums, node, held.slices);
  }
  return overbooked(sums);
}

std::optional<std::string> SimulatedCluster::shared_devices() const {
  std::map<std::string, std::string> holders;  // by device
  for (const Entry& entry : all_given(api_)) {
    for (const AllocatedSlice& one : entry.allocation.slices) {
      const auto [other, is_new] = holders.emplace(one.device, entry.key);
      if (!is_new) {
        return fmt::format("{} is of {} and {}", one.device, other->second, entry.key);
      }
    }
  }
  return std::nullopt;
}

std::size_t SimulatedCluster::held() const {
  std::size_t held = 0;
  for (const auto& [node, machine] : machines_) held += machine.ledger.size();
  return held;
}

}  // namespace divvy::kube::testing
