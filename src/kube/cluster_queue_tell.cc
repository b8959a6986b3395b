// What people are told: the condition of a pod that waits, with what would have to change, and
// events.
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/cluster_queue.h"
#include "kube/object_names.h"
#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// Longer than anybody reads in a table.
constexpr std::size_t kLongestMessage = 1024;

// As conditions have it: one word in CamelCase.
std::string_view reason_of(jobs::WaitKind kind) {
  switch (kind) {
    case jobs::WaitKind::kNothing:
      return "Starting";
    case jobs::WaitKind::kSuspended:
      return "Suspended";
    case jobs::WaitKind::kDependency:
      return "Dependency";
    case jobs::WaitKind::kBackOff:
      return "BackOff";
    case jobs::WaitKind::kArray:
      return "Array";
    case jobs::WaitKind::kQuota:
      return "Quota";
    case jobs::WaitKind::kMakingRoom:
      return "MakingRoom";
    case jobs::WaitKind::kReservation:
      return "Reservation";
    case jobs::WaitKind::kFull:
      return "Full";
    case jobs::WaitKind::kNever:
      return "Never";
    case jobs::WaitKind::kNext:
      return "Next";
  }
  return "Waiting";
}

// Where the queue speaks of its command line.
std::string for_pods(std::string text) {
  constexpr std::string_view kHeld =
      "; it is held until a machine can run it (--hold-for-capacity)";
  if (const auto at = text.find(kHeld); at != std::string::npos) {
    text.replace(at, kHeld.size(), "; it waits until there is a node that can run it");
  }
  return text;
}

std::string shortened(std::string text) {
  if (text.size() <= kLongestMessage) return text;
  text.resize(kLongestMessage - 3);
  // Not in the middle of a character.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) {
    text.pop_back();
  }
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) text.pop_back();
  return text + "...";
}

}  // namespace

PodReport ClusterQueue::report(const Work& work, WallTime now, bool guess) {
  PodReport report;
  if (work.place) {
    report.placed = work.stage == Stage::kPlaced;
    report.node = work.place->node;
    std::string text;
    for (const AllocatedSlice& one : work.place->slices) {
      const auto node = gpu_nodes_.find(work.place->node);
      std::string gpu = one.slice.gpu().str();
      if (node != gpu_nodes_.end()) {
        for (const agent::MachineGpu& known : node->second.facts.state.gpus) {
          if (known.uuid == one.slice.gpu()) gpu = fmt::format("gpu{}", known.index);
        }
      }
      text += text.empty() ? "" : ", ";
      text += one.slice.whole_gpu() ? fmt::format("{} for {}", gpu, one.request)
                                    : fmt::format("{} of {} with {} for {}", one.slice.share(), gpu,
                                                  humanize(one.slice.memory()), one.request);
    }
    report.text = fmt::format("on {}: {}", work.place->node, text);
    if (work.told_stuck) {
      report.text +=
          "; kube-scheduler does not take it there (its condition PodScheduled says why), and a "
          "pod "
          "with slots cannot be placed again: delete it to have its successor placed elsewhere";
    }
    return report;
  }
  if (work.stage == Stage::kIdle) {
    report.text = work.refusal.empty() ? "it has not been looked at yet" : work.refusal;
    if (work.pod.ended) report.text = "it has ended";
    return report;
  }
  report.wait = guess ? queue_->explain(work.job, now) : queue_->why_it_waits(work.job, now);
  report.text = for_pods(report.wait.text);
  if (const Gang* const gang = gang_of(work);
      gang != nullptr && gang->size && gang->size->is_gang()) {
    report.text = gang->runs ? fmt::format("{} runs, and this pod joins it: {}",
                                           gang->reference.describe(), report.text)
                             : fmt::format("{}, {} pods that start together: {}",
                                           gang->reference.describe(), gang->queued, report.text);
    if (!gang->runs && !gang->refusal.empty()) {
      report.text +=
          fmt::format("; it was placed before and taken back, because {}", gang->refusal);
    }
  }
  const bool are_moved = moving_ && moving_->job == work.job;
  const bool would_be = planned_ && planned_for_ == work.job;
  if (!work.moves.empty() && (are_moved || would_be)) report.text += "; " + work.moves;
  report.wait.text = report.text;
  if (work.bound()) {
    report.text =
        fmt::format("it is bound to {} without a slice: {}; delete it to have it placed elsewhere",
                    work.pod.node, report.text);
  } else if (!work.avoided.empty() && work.pod.unschedulable) {
    report.text += "; kube-scheduler did not take it where it was placed";
    for (const auto& [node, until] : work.avoided) report.text += ", on " + node;
  }
  return report;
}

std::optional<PodReport> ClusterQueue::explain(const std::string& space, const std::string& name,
                                               WallTime now) {
  const auto uid = uids_.find(space + "/" + name);
  if (uid == uids_.end()) return std::nullopt;
  return report(*find(uid->second), now, true);
}

// An explanation tries things out on a copy of the fleet, and each write is read by everybody who
// watches pods: so a few at a time.
void ClusterQueue::tell_due(WallTime now) {
  if (now < telling_rests_) return;
  std::size_t told = 0;
  while (!to_tell_.empty() && to_tell_.begin()->first <= now) {
    if (told == options_.told_at_once) {
      telling_rests_ = now + std::chrono::seconds(1);
      return;
    }
    const std::string uid = to_tell_.begin()->second;
    to_tell_.erase(to_tell_.begin());
    Work* const work = find(uid);
    if (work == nullptr || !work->lives()) continue;
    if (work->condition_busy || work->stage == Stage::kPlanned) {
      tell_soon(*work, now + std::chrono::seconds(1));
      continue;
    }
    ++told;
    const PodReport now_is = report(*work, now, false);
    if (work->stage == Stage::kPlaced) {
      set_condition(*work, true, work->told_stuck ? "Unschedulable" : "Placed", now_is.text, now);
      continue;
    }
    std::string_view reason = work->gang_is_missing ? "Gang" : "Refused";
    if (work->stage == Stage::kQueued) {
      const bool moving = moving_ && moving_->job == work->job;
      reason = work->bound() ? "BoundWithoutSlice"
               : moving      ? reason_of(jobs::WaitKind::kMakingRoom)
                             : reason_of(now_is.wait.kind);
      tell_soon(*work, now + options_.tell_again);
    }
    if (!std::exchange(work->told_queued, true) && !work->pod.condition) {
      const bool waits = work->gang_is_missing || (work->stage == Stage::kQueued && !work->bound());
      tell_event(*work, waits ? "Normal" : "Warning", waits ? "DivvyQueued" : "DivvyNotPlaced",
                 now_is.text, now);
    }
    std::string message = now_is.text;
    if (!now_is.wait.details.empty()) message += "\n" + now_is.wait.details;
    set_condition(*work, false, reason, std::move(message), now);
  }
}

void ClusterQueue::set_condition(Work& work, bool placed, std::string_view reason,
                                 std::string message, WallTime now) {
  const PodFacts& pod = work.pod;
  message = shortened(std::move(message));
  if (pod.condition && pod.condition_text == fmt::format("{} {}", reason, message)) return;
  json::object condition{{"type", kPlacedCondition},
                         {"status", placed ? "True" : "False"},
                         {"reason", reason},
                         {"message", std::move(message)},
                         {"lastTransitionTime", time_stamp(now)}};
  json::array patch;
  patch.push_back(json::object{{"op", "test"}, {"path", "/metadata/uid"}, {"value", work.uid()}});
  if (pod.condition) {
    const std::string at = fmt::format("/status/conditions/{}", *pod.condition);
    patch.push_back(
        json::object{{"op", "test"}, {"path", at + "/type"}, {"value", kPlacedCondition}});
    patch.push_back(json::object{{"op", "replace"}, {"path", at}, {"value", std::move(condition)}});
  } else {
    // Nobody may have added it meanwhile: there would be two.
    patch.push_back(json::object{{"op", "test"},
                                 {"path", "/metadata/resourceVersion"},
                                 {"value", std::to_string(pod.object.version)}});
    const char* const path = pod.has_conditions ? "/status/conditions/-" : "/status/conditions";
    json::value value = pod.has_conditions ? json::value(std::move(condition))
                                           : json::value(json::array{std::move(condition)});
    patch.push_back(json::object{{"op", "add"}, {"path", path}, {"value", std::move(value)}});
  }
  work.condition_busy = true;
  emit(ActionKind::kSetCondition, work.uid(),
       pod_path(pod.object.space, pod.object.name) + "/status", std::move(patch));
}

void ClusterQueue::tell_event(const Work& work, std::string_view type, std::string_view reason,
                              const std::string& message, WallTime now) {
  const ObjectFacts& pod = work.pod.object;
  const std::string at = time_stamp(now);
  std::string path = fmt::format("/api/v1/namespaces/{}/events", pod.space);
  emit(ActionKind::kTellEvent, work.uid(), std::move(path),
       json::object{
           {"apiVersion", "v1"},
           {"kind", "Event"},
           {"metadata", json::object{{"name", fmt::format("{}.{:016x}", pod.name, random_())},
                                     {"namespace", pod.space}}},
           {"involvedObject", json::object{{"apiVersion", "v1"},
                                           {"kind", "Pod"},
                                           {"namespace", pod.space},
                                           {"name", pod.name},
                                           {"uid", pod.uid}}},
           {"type", type},
           {"reason", reason},
           {"message", shortened(message)},
           {"source", json::object{{"component", "divvy"}}},
           {"reportingComponent", "divvy.dev/controller"},
           {"reportingInstance", options_.instance},
           {"firstTimestamp", at},
           {"lastTimestamp", at},
           {"count", 1}});
}

}  // namespace divvy::kube
