// Gangs: pods that start together or not at all. Where one stands is seen from its pods alone, so
// that a controller that begins anew goes on:
//
//   somebody runs                    -> it runs; whoever comes later is placed by itself and joins
//   it nobody runs, some have a place   -> it is being started: all have one, or all give theirs
//   back nobody has a place               -> as soon as all are there they are one job of the queue
//
// Started it is in one sweep: all claims are allocated, then all gates are removed. Where
// Kubernetes knows binding conditions, kube-scheduler reserves each claim and waits; when all of
// them are reserved each gets `go`, and if one cannot be, all get `no`, and the pods live on. Where
// it does not, a pod runs as soon as kube-scheduler takes it, and one that is not taken is placed
// again.
#include <algorithm>
#include <boost/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "kube/cluster_queue.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

std::size_t without(std::size_t number, std::size_t others) {
  return number > others ? number - others : 1;
}

}  // namespace

std::size_t Gang::expected() const {
  const std::size_t all = std::max(size->pods, size->least);
  return size->counts_others ? without(all, others.size()) : all;
}

std::size_t Gang::least() const {
  const std::size_t all = size->least == 0 ? size->pods : size->least;
  return size->counts_others ? without(all, others.size()) : all;
}

// The pods of a gang, by how they stand.
struct ClusterQueue::Standing {
  std::vector<Work*> running;  // and live
  std::vector<Work*> placed;   // live, and have a place or are about to, which is not theirs yet
  std::vector<Work*> waiting;  // live, and have none
  std::size_t succeeded = 0;
  bool unsettled = false;  // somebody who is leaving has such a place, or a write has no answer yet
};

// --- Who belongs to it ---

void ClusterQueue::enter_gang(Work& work) {
  if (!work.pod.gang) return;
  const GangReference& reference = *work.pod.gang;
  work.gang = work.pod.object.space + "/" + reference.key();
  Gang& gang = gangs_.try_emplace(work.gang, Gang{reference, work.pod.object.space}).first->second;
  gang.pods.insert(work.uid());
  if (reference.path.empty())
    gang.size = GangSize{.pods = reference.size, .least = reference.least};
}

void ClusterQueue::leave_gang(const Work& work) {
  const auto found = gangs_.find(work.gang);
  if (found == gangs_.end()) return;
  found->second.pods.erase(work.uid());
  dirty_gangs_.insert(work.gang);
}

// A pod that asks for nothing of ours; an empty document: it is gone.
void ClusterQueue::see_other(const std::string& key, const json::object& pod) {
  const auto group = read_named_group(pod);
  const auto known = others_.find(key);
  std::string gang_key;
  if (group) gang_key = fmt::format("{}/{}", text_at(pod, {"metadata", "namespace"}), group->key());
  if (known != others_.end()) {
    if (known->second == gang_key) return;
    gangs_.at(known->second).others.erase(key);
    dirty_gangs_.insert(known->second);
    others_.erase(known);
  }
  if (!group) return;
  const std::string space(text_at(pod, {"metadata", "namespace"}));
  gangs_.try_emplace(gang_key, Gang{*group, space}).first->second.others.insert(key);
  others_.emplace(key, gang_key);
  dirty_gangs_.insert(gang_key);
}

Gang* ClusterQueue::gang_of(const Work& work) {
  const auto found = gangs_.find(work.gang);
  return found == gangs_.end() ? nullptr : &found->second;
}

bool ClusterQueue::in_attempt(const Work& work) {
  const Gang* const gang = gang_of(work);
  return gang != nullptr && !gang->runs && !work.joins;
}

// It runs where it is, or cannot be kept from it.
bool ClusterQueue::is_committed(const Work& work) const {
  if (work.bound()) return true;
  const auto given = given_to(work);
  if (!given) return false;
  if (given->claim == nullptr) return true;
  return given->reserved && (!given->allocation->awaits_go || given->claim->go);
}

bool ClusterQueue::may_release(const Work& work) {
  const Gang* const gang = gang_of(work);
  return gang == nullptr || work.joins || gang->runs || (gang->complete && !gang->failing);
}

ClusterQueue::Standing ClusterQueue::look_at(const Gang& gang) {
  Standing standing;
  for (const std::string& uid : gang.pods) {
    Work& work = *find(uid);
    const bool has_place = work.stage == Stage::kPlanned || work.stage == Stage::kPlaced;
    const bool committed = work.stage == Stage::kPlaced && is_committed(work);
    if (work.pod.succeeded && !work.gone) ++standing.succeeded;
    // Made for a node: it waits for nobody.
    if (work.bound() && !has_place) continue;
    if (!work.lives()) {
      standing.unsettled |= work.claim_busy || (has_place && !committed);
    } else if (committed) {
      standing.running.push_back(&work);
    } else if (has_place) {
      standing.placed.push_back(&work);
    } else {
      standing.unsettled |= work.claim_busy;
      standing.waiting.push_back(&work);
    }
  }
  // Names of pods that are made in a row have numbers of unlike length.
  std::ranges::sort(standing.waiting, {}, [](const Work* work) {
    const std::string& name = work->pod.object.name;
    return std::tuple(work->pod.gang->rank, name.size(), name);
  });
  return standing;
}

// --- The round ---

void ClusterQueue::settle_gangs(WallTime now) {
  for (const std::string& key : std::exchange(dirty_gangs_, {})) {
    const auto found = gangs_.find(key);
    if (found == gangs_.end()) continue;
    Gang& gang = found->second;
    if (gang.pods.empty() && gang.others.empty()) {
      gangs_.erase(found);
    } else if (!gang.pods.empty()) {
      settle_gang(key, gang, now);
    }
  }
}

void ClusterQueue::settle_gang(const std::string& key, Gang& gang, WallTime now) {
  Standing standing = look_at(gang);
  const bool ran = std::exchange(gang.runs, !standing.running.empty());
  if (gang.runs) {
    // What is to become of those who do not run is another question now.
    for (const Work* const work : standing.placed) {
      if (!ran) touch(work->uid());
    }
    gang.failing = false;
    gang.attempt = 0;
    gang.refusals = 0;
    gang.refusal.clear();
    gang.avoided.clear();
    for (Work* const work : standing.placed) {
      const ClaimFacts* const claim = claim_of(*work);
      if (work->stage == Stage::kPlaced && claim != nullptr && claim->reserved) {
        tell_devices(*work, kGoCondition, now);
      }
    }
  }
  if (!gang.size) {
    read_size(key, gang, now);
    if (!gang.runs && standing.placed.empty()) {
      const std::string why =
          gang.problem.empty() ? "it is being looked up of how many pods it is" : gang.problem;
      keep_waiting(standing.waiting, fmt::format("{}: {}", gang.reference.describe(), why), now);
    }
    return;
  }
  if (gang.size->by_parts && !gang.is_part) {
    split(key);
    return;
  }
  const bool is_gang = gang.size->is_gang();
  if (gang.runs || !is_gang) {
    if (is_gang) unite(gang, standing.running, now);
    go_on(gang, standing, now);
    return;
  }
  for (Work* const work : standing.waiting) work->joins = false;
  if (!standing.placed.empty() || standing.unsettled || gang.failing) {
    attempt(key, gang, standing, now);
  } else {
    line_up(key, gang, standing, now);
  }
}

// It runs, or its pods have nothing to do with each other: each is placed by itself.
void ClusterQueue::go_on(Gang& gang, const Standing& standing, WallTime /*now*/) {
  for (Work* const work : standing.placed) work->joins = true;
  for (Work* const work : standing.waiting) {
    if (work->stage == Stage::kQueued && !work->joins) dissolve(work->job);
    work->joins = true;
    if (work->stage == Stage::kIdle) to_submit_.push_back(work->uid());
  }
  gang.queued = 0;
}

// Some have a place and nobody runs.
void ClusterQueue::attempt(const std::string& key, Gang& gang, const Standing& standing,
                           WallTime now) {
  const auto& placed = standing.placed;
  // Begun by a controller that is not there any more: it goes on if nothing is missing.
  const std::size_t wanted =
      gang.attempt != 0 ? gang.attempt : without(gang.least(), standing.succeeded);
  if (placed.size() < wanted || standing.unsettled) gang.failing = true;
  if (gang.failing) {
    take_back(key, gang, now);
    return;
  }
  gang.complete = std::ranges::all_of(
      placed, [](const Work* work) { return work->stage == Stage::kPlaced && !work->claim_busy; });
  if (!gang.complete) return;
  unite(gang, placed, now);
  const bool all_reserved = std::ranges::all_of(placed, [this](const Work* work) {
    const ClaimFacts* const claim = claim_of(*work);
    return claim != nullptr && claim->reserved;
  });
  if (!all_reserved) return;
  for (Work* const work : placed) tell_devices(*work, kGoCondition, now);
}

// One of them did not get its place: nobody keeps theirs.
void ClusterQueue::fail_attempt(Gang& gang, const Work& work, const std::string& why,
                                WallTime now) {
  dirty_gangs_.insert(work.gang);
  if (std::exchange(gang.failing, true)) return;
  gang.refusal = why;
  log_info("gang taken back", {{"gang", work.gang}, {"reason", why}});
  if (work.place && work.lives()) {
    const Duration until = options_.avoid * (1U << std::min(gang.refusals, 5U));
    gang.avoided[work.place->node] = now + until;
    wake(work, now + until);
  }
  if (gang.refusals > 0) {
    gang.not_before = now + std::min<Duration>(60s, 1s * (1U << std::min(gang.refusals, 6U)));
  }
  ++gang.refusals;
}

void ClusterQueue::take_back(const std::string& key, Gang& gang, WallTime now) {
  gang.complete = false;
  bool left = false;
  for (const std::string& uid : gang.pods) {
    Work& work = *find(uid);
    if (work.claim_busy) {
      left = true;
    } else if (work.stage == Stage::kPlanned) {
      end_job(work, now);
    } else if (work.stage == Stage::kPlaced && !is_committed(work)) {
      left = true;
      const ClaimFacts* const claim = claim_of(work);
      if (now < work.pod_again_at) {
        wake(work, work.pod_again_at);
      } else if (claim != nullptr && claim->reserved) {
        tell_devices(work, kNoCondition, now);
      } else if (claim != nullptr && claim->allocation) {
        clear_place(work, *claim);
      } else {
        touch(uid);
      }
    }
  }
  if (left) return;
  gang.failing = false;
  gang.attempt = 0;
  gang.job = {};
  dirty_gangs_.insert(key);
}

// Nobody has a place.
void ClusterQueue::line_up(const std::string& key, Gang& gang, Standing& standing, WallTime now) {
  gang.attempt = 0;
  gang.complete = false;
  std::vector<Work*>& waiting = standing.waiting;
  const bool expired =
      std::erase_if(gang.avoided, [now](const auto& one) { return one.second <= now; }) != 0;
  const auto stands = [&gang](const Work* work) {
    return work->stage == Stage::kQueued && work->job == gang.job;
  };
  if (gang.queued != 0 && gang.queued == waiting.size() && !expired &&
      std::ranges::all_of(waiting, stands)) {
    return;
  }
  for (Work* const work : waiting) {
    if (work->stage == Stage::kQueued) dissolve(work->job);
  }
  gang.queued = 0;
  if (waiting.empty()) return;
  if (now - gang.read_at > 3 * options_.read_again) read_size(key, gang, now);
  const std::size_t there = waiting.size() + standing.succeeded;
  if (there < gang.expected()) {
    read_size(key, gang, now);
    keep_waiting(
        waiting,
        fmt::format("{}: {} of {} pods {} there, and they start together",
                    gang.reference.describe(), there, gang.expected(), there == 1 ? "is" : "are"),
        now);
    return;
  }
  if (gang.reading) return;
  submit_gang(gang, waiting, now);
}

// Its parts are gangs of their own.
void ClusterQueue::split(const std::string& key) {
  auto whole = gangs_.extract(key);
  Gang& gang = whole.mapped();
  for (const std::string& uid : gang.pods) {
    Work& work = *find(uid);
    const std::string part = work.pod.gang->part;
    work.gang = fmt::format("{}/{}", key, part);
    GangReference reference = gang.reference;
    reference.part = part;
    Gang& one = gangs_.try_emplace(work.gang, Gang{reference, gang.space}).first->second;
    one.is_part = true;
    one.read_at = gang.read_at;
    const auto pods = gang.size->parts.find(part);
    one.size = GangSize{.pods = pods == gang.size->parts.end() ? 1 : pods->second,
                        .created = gang.size->created};
    one.pods.insert(uid);
    dirty_gangs_.insert(work.gang);
  }
}

// Those who have a place are members of one job.
void ClusterQueue::unite(Gang& gang, const std::vector<Work*>& works, WallTime now) {
  const auto runs = [this](model::JobId id) {
    const model::Job* const job = queue_->find(id);
    return job != nullptr && job->state == model::JobState::kRunning;
  };
  for (Work* const work : works) {
    if (work->job == gang.job || !runs(work->job)) continue;
    const model::Job* const theirs = queue_->find(gang.job);
    if (theirs == nullptr || !jobs_.contains(gang.job)) {
      gang.job = work->job;
      continue;
    }
    // One that starts, or has to make way, is as it is until that has come to an end.
    if (theirs->state != model::JobState::kRunning) continue;
    const model::JobId other = work->job;
    jobs_.erase(other);
    work->ranks = queue_->join(gang.job, other, now);
    work->job = gang.job;
    std::vector<std::string>& pods = jobs_.at(gang.job);
    for (const std::uint32_t rank : work->ranks) {
      if (rank >= pods.size()) pods.resize(rank + 1);
      pods[rank] = work->uid();
    }
  }
}

// A job that waits is none any more; its pods are looked at again.
void ClusterQueue::dissolve(model::JobId job) {
  const auto found = jobs_.extract(job);
  if (found.empty()) return;
  for (const std::string& uid : found.mapped()) {
    Work* const work = find(uid);
    if (work == nullptr || work->job != job) continue;
    work->stage = Stage::kIdle;
    work->job = {};
    work->ranks = {};
    if (!work->gang.empty()) dirty_gangs_.insert(work->gang);
  }
  queue_->withdraw(job);
  pass_due_ = true;
}

// --- How many there are ---

void ClusterQueue::read_size(const std::string& key, Gang& gang, WallTime now) {
  if (gang.reference.path.empty() || gang.reading) return;
  const Duration pause = options_.read_again * (1U << std::min(gang.unread, 3U));
  const WallTime due = gang.read_at == WallTime() ? now : gang.read_at + pause;
  if (due > now) {
    wake(*find(*gang.pods.begin()), due);
    return;
  }
  gang.reading = true;
  gang.read_at = now;
  emit(ActionKind::kReadGang, key, gang.reference.path, nullptr);
}

void ClusterQueue::size_read(const std::string& key, const Result<json::object>& result,
                             WallTime now) {
  const auto found = gangs_.find(key);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.reading = false;
  dirty_gangs_.insert(key);
  const DialectPolicy policy = dialects_of(gang.space);
  Result<GangSize> size = err(ErrorCode::kNotFound, "");
  if (result) {
    size = read_gang_size(gang.reference, *result, policy);
  } else {
    size = err(result.error());
  }
  if (!size) {
    ++gang.unread;
    const ErrorCode code = size.error().code;
    gang.problem = code == ErrorCode::kNotFound ? "it is not there, so nobody knows of how many "
                                                  "pods it is; annotate them with divvy.dev/gang: "
                                                  "none to have each started by itself"
                                                : size.error().message;
    // What was known holds on while nobody knows better.
    if (code == ErrorCode::kNotFound) gang.size.reset();
    log_debug("size of a gang not read", {{"gang", key}, {"reason", size.error().message}});
    wake(*find(*gang.pods.begin()), now + options_.read_again);
    return;
  }
  gang.unread = 0;
  gang.problem.clear();
  if (gang.is_part) {
    const auto pods = size->parts.find(gang.reference.part);
    size = GangSize{.pods = pods == size->parts.end() ? 1 : pods->second, .created = size->created};
  }
  gang.size = *std::move(size);
}

// --- What is said ---

// To kube-scheduler, of every device of the claim. Once.
void ClusterQueue::tell_devices(Work& work, std::string_view condition, WallTime now) {
  const ClaimFacts* const claim = claim_of(work);
  if (claim == nullptr || !claim->allocation || !claim->allocation->awaits_go) return;
  if (work.claim_busy || now < work.pod_again_at) return;
  if (claim->go || claim->no) return;
  json::array devices;
  for (const json::value& one : array_at(claim->document, {"status", "devices"})) {
    if (one.is_object() && text_at(one.get_object(), {"driver"}) != kDriver) devices.push_back(one);
  }
  const bool go = condition == kGoCondition;
  for (const AllocatedSlice& slice : claim->allocation->slices) {
    const json::object said{{"type", condition},
                            {"status", "True"},
                            {"reason", go ? "AllReserved" : "TakenBack"},
                            {"message", go ? "every pod of its gang has its place"
                                           : "a pod of its gang did not get its place"},
                            {"lastTransitionTime", time_stamp(now)}};
    devices.push_back(json::object{{"driver", kDriver},
                                   {"pool", claim->allocation->node},
                                   {"device", slice.device},
                                   {"conditions", json::array{said}}});
  }
  json::object document = claim->document;
  json::object status = object_at(document, {"status"});
  status["devices"] = std::move(devices);
  document["status"] = std::move(status);
  work.claim_busy = true;
  emit(ActionKind::kTellDevices, work.uid(),
       claim_path(work.pod.object.space, work.pod.claim) + "/status", std::move(document));
}

// To people.
void ClusterQueue::keep_waiting(const std::vector<Work*>& works, const std::string& why,
                                WallTime now) {
  for (Work* const work : works) {
    work->gang_is_missing = true;
    if (work->refusal == why) continue;
    work->refusal = why;
    tell_soon(*work, now);
  }
}

}  // namespace divvy::kube
