// What the controller says of the cluster as a whole, for people and autoscalers: in one object,
// which it makes where there is none (capacity_plan.h), and to pods for which a node would have to
// be added.
#include <boost/json.hpp>

#include "base/log.h"
#include "kube/cluster_queue.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// To look for nodes that would help takes a while, and everybody who watches reads each status.
constexpr Duration kCapacityRest = 10s;
constexpr Duration kCapacityPauseAfterError = 30s;
constexpr const char* kCapacityPath = "/apis/divvy.dev/v1/capacityplans";

}  // namespace

Status ClusterQueue::see_capacity_plan(const json::object& object) {
  DIVVY_TRY(plan, read_capacity_plan(object));
  if (plan.object.name != kCapacityPlanName) return {};
  if (capacity_ && capacity_->object.uid == plan.object.uid &&
      capacity_->object.version >= plan.object.version) {
    return {};
  }
  capacity_ = std::move(plan);
  capacity_told_ = false;
  return {};
}

void ClusterQueue::capacity_plan_gone(const ObjectFacts& object) {
  if (!capacity_ || capacity_->object.uid != object.uid) return;
  capacity_.reset();
  capacity_told_ = false;
}

// Where somebody wrote which kinds can be added, there are no others.
std::vector<jobs::NodeKind> ClusterQueue::node_kinds(WallTime now) const {
  std::vector<jobs::NodeKind> kinds = capacity_->kinds;
  if (!kinds.empty()) return kinds;
  return kinds_of(
      fleet_of(gpu_nodes_, nodes_, overbooked_, options_.topology, now, options_.silence));
}

CapacityReport ClusterQueue::capacity_report(WallTime now) {
  CapacityReport report;
  report.room = queue_->free_room();
  report.mode = options_.defragmentation.mode;
  report.moves = planned_;
  report.moving = moving_.has_value();
  nodes_wanted_.clear();
  if (queue_->waiting() == 0) return report;
  const std::vector<jobs::NodeKind> kinds = node_kinds(now);
  const jobs::Growth growth = queue_->plan_growth(kinds);
  report.wanted.reserve(growth.wanted.size());
  for (const jobs::Growth::Wanted& one : growth.wanted) {
    CapacityReport::Wanted wanted{kinds[one.kind], one.nodes, {}};
    wanted.pods.reserve(one.jobs.size());
    for (const model::JobId job : one.jobs) {
      wanted.pods.push_back(name_of(job));
      tell_wanted(job, wanted.kind, now);
    }
    nodes_wanted_[wanted.kind.node.name] += one.nodes;
    report.wanted.push_back(std::move(wanted));
  }
  for (const model::JobId job : growth.not_helped) report.not_helped.push_back(name_of(job));
  return report;
}

// Once to each pod; its condition says what stands in the way.
void ClusterQueue::tell_wanted(model::JobId job, const jobs::NodeKind& kind, WallTime now) {
  const auto pods = jobs_.find(job);
  Work* const first = pods == jobs_.end() ? nullptr : find(pods->second.front());
  if (first == nullptr || std::exchange(first->told_wanted, true)) return;
  tell_event(
      *first, "Normal", "DivvyNodeWanted",
      fmt::format("it would start if there were one more node like {} ({} x {}), or several; "
                  "kubectl get capacityplan {} -o yaml says how many the line waits for",
                  kind.node.name, kind.node.devices.size(),
                  kind.node.devices.empty() ? "" : kind.node.devices.front().model,
                  kCapacityPlanName),
      now);
}

void ClusterQueue::tell_capacity(WallTime now) {
  if (!options_.capacity_plans || capacity_told_ || capacity_busy_ || now < capacity_rests_) return;
  capacity_rests_ = now + kCapacityRest;
  if (!capacity_) {
    capacity_busy_ = true;
    emit(ActionKind::kCreateCapacityPlan, std::string(kCapacityPlanName), kCapacityPath,
         json::object{{"apiVersion", "divvy.dev/v1"},
                      {"kind", "CapacityPlan"},
                      {"metadata", json::object{{"name", kCapacityPlanName}}},
                      {"spec", json::object()}});
    return;
  }
  capacity_told_ = true;
  json::object status = capacity_status(*capacity_, capacity_report(now), now);
  if (status == capacity_->status) return;
  capacity_busy_ = true;
  emit(ActionKind::kWriteCapacityPlan, std::string(kCapacityPlanName),
       fmt::format("{}/{}/status", kCapacityPath, kCapacityPlanName),
       json::array{json::object{
                       {"op", "test"}, {"path", "/metadata/uid"}, {"value", capacity_->object.uid}},
                   json::object{{"op", "add"}, {"path", "/status"}, {"value", std::move(status)}}});
}

void ClusterQueue::capacity_done(const Result<json::object>& result, WallTime now) {
  capacity_busy_ = false;
  if (result) {
    if (const Status seen = see_capacity_plan(*result); !seen) {
      log_warning("capacity plan not understood", {{"reason", seen.error().message}});
    }
    return;
  }
  capacity_told_ = false;
  capacity_rests_ = now + kCapacityPauseAfterError;
  log_debug("capacity plan not written", {{"reason", result.error().message}});
}

}  // namespace divvy::kube
