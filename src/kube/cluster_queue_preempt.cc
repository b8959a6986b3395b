// Pods that have to go: for others (preemption, reclaim), because their time is over or because
// their GPU failed. By eviction, so that they have their grace and budgets for disruption count.
// Whoever goes for others goes with its whole gang or not at all: each is asked about first (a dry
// run), and where a budget refuses one of them all are spared for a while, and the queue looks for
// somebody else.
#include <algorithm>
#include <boost/json.hpp>

#include "base/check.h"
#include "base/log.h"
#include "kube/cluster_queue.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

json::object eviction(const PodFacts& pod, bool dry_run) {
  json::object options{{"preconditions", json::object{{"uid", pod.object.uid}}}};
  if (dry_run) options["dryRun"] = json::array{"All"};
  return {{"apiVersion", "policy/v1"},
          {"kind", "Eviction"},
          {"metadata", json::object{{"name", pod.object.name}, {"namespace", pod.object.space}}},
          {"deleteOptions", std::move(options)}};
}

bool is_for_others(model::StopReason reason) {
  return reason == model::StopReason::kPreempted || reason == model::StopReason::kReclaimed;
}

}  // namespace

// "pod team-a/llm-0", or its gang.
std::string ClusterQueue::name_of(model::JobId job) {
  const auto pods = jobs_.find(job);
  if (pods == jobs_.end()) return "another pod";
  const auto first =
      std::ranges::find_if(pods->second, [](const std::string& uid) { return !uid.empty(); });
  const Work* const work = first == pods->second.end() ? nullptr : find(*first);
  if (work == nullptr) return "another pod";
  const Gang* const gang = gang_of(*work);
  if (gang != nullptr && gang->job == job) {
    return fmt::format("{} in {}", gang->reference.describe(), gang->space);
  }
  return "pod " + work->pod.object.key();
}

void ClusterQueue::stop(const jobs::Stop& stop, WallTime now) {
  const auto found = jobs_.find(stop.job);
  if (found == jobs_.end()) return;
  std::string why = stop.text;
  if (is_for_others(stop.reason) && stop.makes_way_for) {
    const std::string who = name_of(*stop.makes_way_for);
    const model::Job* const other = queue_->find(*stop.makes_way_for);
    const model::Job* const job = queue_->find(stop.job);
    if (stop.reason == model::StopReason::kPreempted) {
      why = fmt::format("preempted by {}, whose priority is {} (this one's is {})", who,
                        other->spec.priority, job->spec.priority);
    } else {
      why =
          fmt::format("queue {} had borrowed its GPUs from queue {}, which wants them back for {}",
                      job->spec.queue, other->spec.queue, who);
    }
    const std::string makes_way = name_of(stop.job);
    for (const std::string& uid : jobs_.at(*stop.makes_way_for)) {
      Work* const work = find(uid);
      if (work == nullptr) continue;
      tell_event(
          *work, "Normal", "DivvyMakesRoom",
          fmt::format("{} makes way for it and has {} s to end", makes_way, stop.grace.count()),
          now);
    }
  }
  if (moving_ && moving_->pod_job == stop.job) {
    give_up_moves(fmt::format("pod {} has to go for another reason", moving_->name), now);
  }
  std::vector<Work*> works;
  for (const std::string& uid : found->second) {
    Work* const work = find(uid);
    if (work != nullptr && work->lives() && !std::ranges::count(works, work)) works.push_back(work);
  }
  Leaving leaving{.for_others = is_for_others(stop.reason)};
  for (Work* const work : works) {
    work->leaves = why;
    if (leaving.for_others && works.size() > 1) leaving.to_ask.insert(work->uid());
  }
  leaving_[stop.job] = std::move(leaving);
  for (Work* const work : works) leave(*work, why, now);
}

// The next step of a pod that has to go.
void ClusterQueue::leave(Work& work, const std::string& why, WallTime now) {
  if (work.pod_busy || !work.lives()) return;
  if (now < work.pod_again_at) {
    wake(work, work.pod_again_at);
    return;
  }
  const auto leaving = leaving_.find(work.job);
  const bool asked = leaving == leaving_.end() || leaving->second.to_ask.empty();
  if (asked) {
    evict(work, why, now);
    return;
  }
  if (!leaving->second.to_ask.contains(work.uid())) return;
  work.pod_busy = true;
  const ObjectFacts& pod = work.pod.object;
  emit(ActionKind::kTryEviction, work.uid(), pod_path(pod.space, pod.name) + "/eviction",
       eviction(work.pod, true));
}

// As far as its disruption budget allows; where it does not, the answer says so and it is asked
// again later.
void ClusterQueue::evict(Work& work, const std::string& why, WallTime now) {
  if (!work.lives() || std::exchange(work.evicted, true)) return;
  tell_event(work, "Warning", "DivvyEvicted", why, now);
  work.pod_busy = true;
  const ObjectFacts& pod = work.pod.object;
  emit(ActionKind::kEvictPod, work.uid(), pod_path(pod.space, pod.name) + "/eviction",
       eviction(work.pod, false));
}

void ClusterQueue::eviction_done(Work& work, const InFlight& flight,
                                 const Result<json::object>& result, WallTime now) {
  work.pod_busy = false;
  const auto leaving = leaving_.find(work.job);
  const bool trial = flight.kind == ActionKind::kTryEviction;
  if (result || result.error().code == ErrorCode::kNotFound) {
    if (result) work.attempts = 0;
    if (!trial || leaving == leaving_.end()) return;
    leaving->second.to_ask.erase(work.uid());
    if (!leaving->second.to_ask.empty()) return;
    for (const std::string& uid : jobs_.at(work.job)) touch(uid);
    return;
  }
  work.evicted = false;
  const bool refused = result.error().code == ErrorCode::kResourceExhausted;
  const bool whole = leaving != leaving_.end() && leaving->second.for_others &&
                     (trial || jobs_.at(work.job).size() == 1);
  if (refused && whole) {
    spare(work.job, result.error().message, now);
    return;
  }
  work.pod_again_at = now + std::min<Duration>(std::chrono::seconds(30),
                                               std::chrono::milliseconds(200) *
                                                   (1U << std::min(++work.attempts, 10U)));
  wake(work, work.pod_again_at);
}

// A budget for disruption keeps one of them: nobody has to go, and others are looked for.
void ClusterQueue::spare(model::JobId job, const std::string& why, WallTime now) {
  log_info("not evicted: a disruption budget is in the way",
           {{"job", name_of(job)}, {"reason", why}});
  leaving_.erase(job);
  for (const std::string& uid : jobs_.at(job)) {
    Work* const work = find(uid);
    if (work == nullptr) continue;
    work->leaves.clear();
    work->spared_until = now + options_.spare;
    wake(*work, work->spared_until);
  }
  to_adopt_again_.insert(job);
}

// What the queue knows of it as a job is not true any more, and what it holds is.
void ClusterQueue::adopt_again(WallTime now) {
  for (const model::JobId id : std::exchange(to_adopt_again_, {})) {
    const auto pods = jobs_.extract(id);
    const model::Job* const job = queue_->find(id);
    if (pods.empty()) continue;
    const std::size_t members = job == nullptr ? 0 : job->members.size();
    for (std::uint32_t rank = 0; rank < members && is_active(job->state); ++rank) {
      queue_->member_ended(id, job->attempt, rank, {.at = now, .reason = "told anew"}, now);
    }
    if (job != nullptr && job->state == model::JobState::kQueued) {
      queue_->withdraw(id);
    } else {
      queue_->forget(id);
    }
    std::erase_if(adopted_, [id](const model::Job& one) { return one.id == id; });
    for (const std::string& uid : pods.mapped()) {
      Work* const work = find(uid);
      if (work == nullptr || work->job != id) continue;
      work->job = {};
      work->ranks = {};
      if (work->stage != Stage::kPlaced) continue;
      if (Gang* const gang = gang_of(*work); gang != nullptr && gang->job == id) gang->job = {};
      if (!work->gang.empty()) dirty_gangs_.insert(work->gang);
      adopt(*work, now);
    }
    pass_due_ = true;
  }
}

// Whether somebody may have its place: somebody makes a new pod in its stead, or it says so itself.
bool ClusterQueue::may_make_way(const Work& work) const {
  return work.pod.request->spec.preemptible && work.spared_until == WallTime() &&
         (work.pod.is_owned || work.pod.says_preemptible);
}

// Of one that was told to go, and whose pod has nothing any more: whether its node has let go, too.
// Until then its job holds the place, so that it is kept for whom it was made.
bool ClusterQueue::has_let_go(Work& work) const {
  const auto node = gpu_nodes_.find(work.place->node);
  if (node == gpu_nodes_.end()) return true;
  const GpuNodeFacts& facts = node->second.facts;
  const bool holds = std::ranges::any_of(
      facts.held, [&work](const HeldClaim& held) { return held.claim_uid == work.claim_uid; });
  if (holds) {
    work.seen_held = true;
    return false;
  }
  // It may not have said yet that it holds it: then it has to be heard of once.
  const bool silent = (work.gone && !work.pod.ended) || work.pod.by_slots;
  if (!silent || !work.bound() || work.seen_held) return true;
  if (!work.heartbeat_then) work.heartbeat_then = facts.heartbeat;
  return *work.heartbeat_then != facts.heartbeat;
}

}  // namespace divvy::kube
