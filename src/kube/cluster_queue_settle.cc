// One pod as its documents have it: what follows from them, and from the answers of the API server.
//
//   the pod waits, no allocation      -> in the queue
//   the queue found a place           -> claim, allocation; all of one pass; then the gates
//   the claim has an allocation       -> its job holds exactly that
//   ... and kube-scheduler cleared it -> the next place is another one
//   ... and the pod does not fit      -> after a while it is taken back, and placed again
//   the pod is bound, no allocation   -> in the queue for that node alone
#include <algorithm>
#include <boost/json.hpp>

#include "base/check.h"
#include "base/log.h"
#include "kube/cluster_queue.h"
#include "kube/json_view.h"
#include "kube/object_names.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// Between one attempt and the next: 0.2 s, 0.4 s, ... up to 30 s.
Duration pause_after(std::uint32_t attempts) {
  return std::min<Duration>(30s, 100ms * (1U << std::min(attempts, 16U)));
}

// Until the end of a pod is heard of whose claim was cleared.
constexpr Duration kEndPatience = 2s;

// What is known of it is not true any more.
bool is_conflict(ErrorCode code) {
  return code == ErrorCode::kFailedPrecondition || code == ErrorCode::kAlreadyExists ||
         code == ErrorCode::kNotFound;
}

json::object new_claim(const PodFacts& pod) {
  json::array requests;
  for (const std::string& container : pod.request->containers) {
    requests.push_back(json::object{{"name", container},
                                    {"exactly", json::object{{"deviceClassName", kDeviceClass}}}});
  }
  const json::object owner{{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"name", pod.object.name},
                           {"uid", pod.object.uid},
                           {"controller", true}};
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaim"},
          {"metadata", json::object{{"name", pod.claim},
                                    {"namespace", pod.object.space},
                                    {"finalizers", json::array{kClaimFinalizer}},
                                    {"ownerReferences", json::array{owner}}}},
          {"spec", json::object{{"devices", json::object{{"requests", std::move(requests)}}}}}};
}

json::object status_of(const json::object& claim) { return object_at(claim, {"status"}); }

}  // namespace

ClusterQueue::Work* ClusterQueue::find(const std::string& uid) {
  const auto found = works_.find(uid);
  return found == works_.end() ? nullptr : &found->second;
}

// Only one that is the pod's own: a pod may name the claim of another.
const ClaimFacts* ClusterQueue::claim_of(const Work& work) const {
  if (work.pod.claim.empty()) return nullptr;
  const auto found = claims_.find(work.claim_key());
  if (found == claims_.end() || found->second.owner != work.uid()) return nullptr;
  return &found->second;
}

// Whether what is known by now says what became of a write without an answer: it exists, or its
// precondition holds no more.
bool ClusterQueue::is_answered(const Work& work) const {
  if (work.again->kind == ActionKind::kPlacePod) return given_to(work).has_value();
  const auto known = claims_.find(work.claim_key());
  if (known == claims_.end()) return false;
  if (work.again->kind == ActionKind::kCreateClaim) return true;
  if (work.again->kind == ActionKind::kReadClaim) return false;
  const auto wrote = read_object(work.again->body.as_object());
  return wrote && known->second.object.version > wrote->version;
}

void ClusterQueue::settle(Work& work, WallTime now) {
  if (!work.gang.empty()) dirty_gangs_.insert(work.gang);
  if (work.spared_until != WallTime() && work.spared_until <= now) {
    work.spared_until = {};
    if (work.stage == Stage::kPlaced && jobs_.contains(work.job)) to_adopt_again_.insert(work.job);
  }
  if (work.again && is_answered(work)) {
    work.again.reset();
    work.claim_busy = false;
  }
  if (work.again && now >= work.again_at) {
    Action action = *std::exchange(work.again, std::nullopt);
    emit(action.kind, work.uid(), std::move(action.path), std::move(action.body));
    return;
  }
  // What it has is not known before the answer is there.
  if (work.claim_busy) return;
  if (const auto given = given_to(work)) {
    found_allocation(work, *given, now);
    return;
  }
  const ClaimFacts* const claim = claim_of(work);
  work.lingers = work.stage == Stage::kPlaced && leaving_.contains(work.job) && !has_let_go(work);
  if (work.lingers) {
    holdings_changed_ = true;
    return;
  }
  if (work.stage == Stage::kPlaced && may_have_ended(work, now)) return;
  if (work.stage == Stage::kPlaced) lost_allocation(work, now);
  const bool by_hand = !work.pod.refers_to.empty();
  if (!work.lives() || (by_hand && claim == nullptr)) {
    end_job(work, now);
    if (by_hand && claim != nullptr) find_speaker(work.claim_key());
    return;
  }
  switch (work.stage) {
    case Stage::kPlanned:
      write_place(work, claim, now);
      break;
    case Stage::kQueued:
      // Where it may go has changed.
      if (std::erase_if(work.avoided, [now](const auto& one) { return one.second <= now; }) == 0 &&
          work.bound_when_queued == work.pod.node) {
        break;
      }
      end_job(work, now);
      to_submit_.push_back(work.uid());
      break;
    case Stage::kIdle:
      to_submit_.push_back(work.uid());
      break;
    case Stage::kPlaced:
      break;
  }
}

// The claim of a pod that has ended is cleared, and that may be heard of before its end.
bool ClusterQueue::may_have_ended(Work& work, WallTime now) {
  if (!work.lives() || !work.bound()) return false;
  if (!work.cleared) work.cleared = now;
  const WallTime due = *work.cleared + kEndPatience;
  if (now >= due) return false;
  wake(work, due);
  return true;
}

void ClusterQueue::leave_planned(Work& work) {
  if (work.stage != Stage::kPlanned) return;
  const auto open = open_.find(work.pass);
  DIVVY_CHECK(open != open_.end(), "pass {} has no planned places", work.pass);
  if (--open->second == 0) open_.erase(open);
}

void ClusterQueue::found_allocation(Work& work, const Given& given, WallTime now) {
  const Allocation& allocation = *given.allocation;
  work.claim_uid = given.uid;
  work.cleared.reset();
  const bool same =
      work.place && work.place->node == allocation.node && work.place->slices == allocation.slices;
  if (same && work.stage == Stage::kPlanned) {
    leave_planned(work);
    work.stage = Stage::kPlaced;
    work.attempts = 0;
    tell_event(work, "Normal", "DivvyPlaced", report(work, now, false).text, now);
    tell_soon(work, now);
  } else if (!same || work.stage != Stage::kPlaced) {
    // Written by another controller, or by this one before it was started anew.
    end_job(work, now);
    work.place = allocation;
    adopt(work, now);
    tell_soon(work, now);
  }
  const bool waits_for_others = allocation.awaits_go && !work.bound() && !given.claim->go;
  if (work.bound() || (given.reserved && !waits_for_others)) {
    if (work.bound()) work.refusals = 0;
    if (std::exchange(work.told_stuck, false)) tell_soon(work, now);
    const model::Job* const job = queue_->find(work.job);
    if (job != nullptr && job->state == model::JobState::kStarting) {
      const std::uint32_t number = job->attempt;
      for (const std::uint32_t rank : work.ranks) {
        queue_->member_started(work.job, number, rank, now);
      }
    }
  }
  if (!work.lives()) return;
  if (work.bound() && work.pod.node != allocation.node && given.claim != nullptr &&
      work.pod.refers_to.empty()) {
    // kube-scheduler can bind a pod with what it knew of a claim before that was placed elsewhere.
    // The agent of its node gives it nothing, so it has not begun.
    tell_event(work, "Warning", "DivvyNotPlaced",
               fmt::format("it was bound to {} when its slice was on {} already; it gets one on {}",
                           work.pod.node, allocation.node, work.pod.node),
               now);
    clear_place(work, *given.claim, Reservation::kToo);
    return;
  }
  const auto failed = options_.evict_from_failed_gpus ? failed_gpu(work) : std::nullopt;
  if (given.reserved && waits_for_others) {
    if (failed && in_attempt(work)) fail_attempt(*gang_of(work), work, *failed, now);
    return;
  }
  // One that stands in the pod cannot be taken back, whether the pod runs yet or not.
  if (given.reserved || work.bound() || given.claim == nullptr) {
    const std::string why = work.leaves.empty() ? failed.value_or("") : work.leaves;
    if (!why.empty()) leave(work, why, now);
    if (!failed && !work.bound() && given.claim == nullptr) watch_pinned(work, now);
    return;
  }
  if (failed && in_attempt(work)) {
    fail_attempt(*gang_of(work), work, *failed, now);
  } else if (failed) {
    clear_place(work, *given.claim);
  } else if (work.pod.gate) {
    gated_.insert(work.uid());
  } else if (work.pod.unschedulable) {
    // The condition may be older than the allocation: a pod with a gate has it, too.
    const WallTime due = std::max(*work.pod.unschedulable, allocation.at) + options_.unschedulable;
    if (due > now) {
      wake(work, due);
    } else if (in_attempt(work)) {
      fail_attempt(*gang_of(work), work,
                   fmt::format("kube-scheduler did not take {} on {}", work.pod.object.name,
                               allocation.node),
                   now);
    } else if (now >= work.pod_again_at) {
      clear_place(work, *given.claim);
    }
  }
}

// kube-scheduler cleared it, or we did, or its pod is gone with its claim.
void ClusterQueue::lost_allocation(Work& work, WallTime now) {
  const std::string node = work.place->node;
  if (in_attempt(work)) {
    fail_attempt(*gang_of(work), work,
                 work.lives() ? fmt::format("kube-scheduler did not take {} on {}",
                                            work.pod.object.name, node)
                              : fmt::format("{} went before all were placed", work.pod.object.name),
                 now);
  } else if (work.lives() && !work.bound()) {
    const Duration until = options_.avoid * (1U << std::min(work.refusals, 5U));
    work.avoided[node] = now + until;
    wake(work, now + until);
    // The first time another node is waiting for it.
    if (work.refusals > 0) {
      work.not_before = now + std::min<Duration>(60s, 1s * (1U << std::min(work.refusals, 6U)));
    }
    ++work.refusals;
  } else if (!leaving_.contains(work.job) && work.bound() &&
             ((work.gone && !work.pod.ended) || work.pod.by_slots)) {
    // By slots a node lets go after the end of a pod has been told, and not before.
    const auto gpu_node = gpu_nodes_.find(node);
    if (gpu_node != gpu_nodes_.end()) {
      Holding holding{work.pod.object.space, node, {}};
      for (const AllocatedSlice& one : work.place->slices) holding.slices.push_back(one.slice);
      lingering_.insert_or_assign(
          fmt::format("{}@{}", work.claim_uid, node),
          Lingering{work.heard_at_end.value_or(gpu_node->second.facts.heartbeat),
                    std::move(holding)});
    }
  }
  holdings_changed_ = true;
  end_job(work, now);
}

void ClusterQueue::write_place(Work& work, const ClaimFacts* claim, WallTime now) {
  const PodFacts& pod = work.pod;
  if (pod.by_slots) {
    place_pod(work, now);
    return;
  }
  if (claim == nullptr) {
    if (claims_.contains(work.claim_key()) || !pod.refers_to.empty()) {
      refuse_start(work, fmt::format("the resource claim {} is not this pod's", pod.claim), now);
      return;
    }
    work.claim_busy = true;
    std::string path = claim_path(pod.object.space, "");
    path.pop_back();
    emit(ActionKind::kCreateClaim, work.uid(), std::move(path), new_claim(pod));
    return;
  }
  if (claim->deleting || claim->allocated) {
    refuse_start(work,
                 fmt::format("the resource claim {} {}", pod.claim,
                             claim->deleting ? "is being deleted" : "has another allocation"),
                 now);
    return;
  }
  json::object document = claim->document;
  if (!claim->is_protected) {
    json::object& metadata = document["metadata"].as_object();
    json::array finalizers = array_at(document, {"metadata", "finalizers"});
    finalizers.emplace_back(kClaimFinalizer);
    metadata["finalizers"] = std::move(finalizers);
    work.claim_busy = true;
    emit(ActionKind::kProtectClaim, work.uid(), claim_path(pod.object.space, pod.claim),
         std::move(document));
    return;
  }
  json::object status = status_of(document);
  status["allocation"] = write_allocation(*work.place);
  status.erase("devices");  // of what it was given before
  document["status"] = std::move(status);
  work.claim_busy = true;
  emit(ActionKind::kWriteAllocation, work.uid(),
       claim_path(pod.object.space, pod.claim) + "/status", std::move(document));
}

// With the version that has no reservation: if there is one by now, it fails, and the pod runs.
void ClusterQueue::clear_place(Work& work, const ClaimFacts& claim, Reservation reservation) {
  json::object document = claim.document;
  json::object status = status_of(document);
  status.erase("allocation");
  if (reservation == Reservation::kToo) status.erase("reservedFor");
  document["status"] = std::move(status);
  work.claim_busy = true;
  emit(ActionKind::kClearAllocation, work.uid(),
       claim_path(work.pod.object.space, work.pod.claim) + "/status", std::move(document));
}

std::optional<std::string> ClusterQueue::failed_gpu(const Work& work) const {
  const auto node = gpu_nodes_.find(work.place->node);
  if (node == gpu_nodes_.end()) return std::nullopt;
  for (const agent::MachineGpu& gpu : node->second.facts.state.gpus) {
    if (!gpu.lost) continue;
    const bool used = std::ranges::any_of(work.place->slices, [&gpu](const AllocatedSlice& one) {
      return one.slice.gpu() == gpu.uuid;
    });
    if (!used) continue;
    return fmt::format("gpu{} of {} failed{}{}", gpu.index, work.place->node,
                       gpu.resting.empty() ? "" : ": ", gpu.resting);
  }
  return std::nullopt;
}

void ClusterQueue::emit(ActionKind kind, const std::string& uid, std::string path,
                        json::value body) {
  Action action{next_number_++, kind, std::move(path), std::move(body)};
  in_flight_.emplace(action.number, InFlight{kind, uid, action});
  actions_.push_back(std::move(action));
}

// After the allocations of its pass: kube-scheduler then finds every claim of the burst allocated.
void ClusterQueue::release_gates(WallTime now) {
  for (auto it = gated_.begin(); it != gated_.end();) {
    Work* const work = find(*it);
    if (work == nullptr || work->stage != Stage::kPlaced || !work->lives() || !work->pod.gate) {
      it = gated_.erase(it);
      continue;
    }
    ++it;
    if (work->pod_busy || work->claim_busy || !is_released(work->pass)) continue;
    if (!may_release(*work)) continue;
    if (now < work->pod_again_at) {
      wake(*work, work->pod_again_at);
      continue;
    }
    const std::string gate = fmt::format("/spec/schedulingGates/{}", *work->pod.gate);
    json::array patch;
    patch.push_back(
        json::object{{"op", "test"}, {"path", "/metadata/uid"}, {"value", work->uid()}});
    patch.push_back(json::object{{"op", "test"}, {"path", gate + "/name"}, {"value", kQueueGate}});
    patch.push_back(json::object{{"op", "remove"}, {"path", gate}});
    work->pod_busy = true;
    emit(ActionKind::kRemoveGate, work->uid(),
         pod_path(work->pod.object.space, work->pod.object.name), std::move(patch));
  }
}

// --- Answers ---

void ClusterQueue::done(std::uint64_t number, const Result<json::object>& result, WallTime now) {
  auto node = in_flight_.extract(number);
  if (node.empty()) return;
  InFlight& flight = node.mapped();
  if (flight.kind == ActionKind::kReadGang) {
    size_read(flight.uid, result, now);
    return;
  }
  if (flight.kind == ActionKind::kWriteQueue) {
    queue_done(flight.uid, result, now);
    return;
  }
  if (flight.kind == ActionKind::kWritePolicy) {
    policy_done(flight.uid, result, now);
    return;
  }
  if (flight.kind == ActionKind::kCreateCapacityPlan ||
      flight.kind == ActionKind::kWriteCapacityPlan) {
    capacity_done(result, now);
    return;
  }
  Work* const work = find(flight.uid);
  if (work == nullptr) return;
  touch(flight.uid);
  switch (flight.kind) {
    case ActionKind::kCreateClaim:
    case ActionKind::kProtectClaim:
    case ActionKind::kWriteAllocation:
    case ActionKind::kClearAllocation:
    case ActionKind::kTellDevices:
    case ActionKind::kReadClaim:
      claim_done(*work, flight, result, now);
      return;
    case ActionKind::kPlacePod:
    case ActionKind::kReadPlace:
      place_done(*work, flight, result, now);
      return;
    case ActionKind::kTryEviction:
    case ActionKind::kEvictPod:
      eviction_done(*work, flight, result, now);
      return;
    case ActionKind::kRemoveGate:
    case ActionKind::kReadPod:
    case ActionKind::kSetCondition:
      pod_done(*work, flight, result, now);
      return;
    case ActionKind::kReadGang:
    case ActionKind::kWriteQueue:
    case ActionKind::kWritePolicy:
    case ActionKind::kCreateCapacityPlan:
    case ActionKind::kWriteCapacityPlan:
    case ActionKind::kTellEvent:
      return;
  }
}

// The same once more: as long as it may still happen, its place is not free.
void ClusterQueue::write_again(Work& work, InFlight& flight, WallTime now) {
  work.again = std::move(flight.action);
  work.again_at = now + pause_after(++work.attempts);
  wake(work, work.again_at);
}

void ClusterQueue::claim_done(Work& work, InFlight& flight, const Result<json::object>& result,
                              WallTime now) {
  const std::string path = claim_path(work.pod.object.space, work.pod.claim);
  if (result) {
    work.claim_busy = false;
    work.attempts = 0;
    // An answer may come after the word that what it tells of is gone.
    const bool is_new =
        flight.kind == ActionKind::kCreateClaim || flight.kind == ActionKind::kReadClaim;
    const auto told = read_object(*result);
    const auto known = claims_.find(work.claim_key());
    const bool same = told && known != claims_.end() && known->second.object.uid == told->uid;
    if (!same && !(is_new && work.lives())) return;
    if (const Status seen = see_claim(*result); !seen) {
      log_warning("claim not understood", {{"path", path}, {"reason", seen.error().message}});
    }
    return;
  }
  const Error& error = result.error();
  if (is_uncertain(error.code)) {
    write_again(work, flight, now);
    return;
  }
  if (flight.kind == ActionKind::kReadClaim && error.code == ErrorCode::kNotFound) {
    work.claim_busy = false;
    const auto known = claims_.find(work.claim_key());
    if (known != claims_.end() && known->second.owner == work.uid()) {
      claim_gone(known->first, std::string(known->second.object.uid));
    }
    return;
  }
  if (is_conflict(error.code)) {
    emit(ActionKind::kReadClaim, work.uid(), path, nullptr);
    return;
  }
  work.claim_busy = false;
  log_error("claim not written",
            {{"path", path}, {"action", to_string(flight.kind)}, {"reason", error.message}});
  if (work.stage == Stage::kPlanned) {
    refuse_start(work, error.message, now);
  } else {
    work.pod_again_at = now + pause_after(10);
    wake(work, work.pod_again_at);
  }
}

void ClusterQueue::pod_done(Work& work, const InFlight& flight, const Result<json::object>& result,
                            WallTime now) {
  const bool condition = flight.kind == ActionKind::kSetCondition;
  (condition ? work.condition_busy : work.pod_busy) = false;
  const std::string key = work.pod.object.key();
  if (result) {
    work.attempts = 0;
    // An answer may come after the word that the pod is gone.
    const auto known = uids_.find(key);
    if (known == uids_.end() || known->second != work.uid()) return;
    const auto told = read_object(*result);
    if (told && told->uid != work.uid()) {
      pod_gone(key, std::string(work.uid()));
      return;
    }
    if (const Status seen = see_pod(*result); !seen) {
      log_warning("pod not understood", {{"pod", key}, {"reason", seen.error().message}});
    }
    return;
  }
  const ErrorCode code = result.error().code;
  if (condition) {
    // Others change the pod while it starts; soon it is known as it is.
    tell_soon(work, now + (is_uncertain(code) ? options_.tell_again : 1s));
    return;
  }
  if (flight.kind == ActionKind::kReadPod && code == ErrorCode::kNotFound) {
    pod_gone(key, std::string(work.uid()));
    return;
  }
  work.pod_again_at = now + pause_after(++work.attempts);
  wake(work, work.pod_again_at);
  if (flight.kind == ActionKind::kRemoveGate && !is_uncertain(code)) {
    work.pod_busy = true;
    emit(ActionKind::kReadPod, work.uid(), pod_path(work.pod.object.space, work.pod.object.name),
         nullptr);
  }
}

}  // namespace divvy::kube
