// Documents in, actions out: the round.
#include "kube/cluster_queue.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr int kGangRounds = 4;

// Whether what is known is at least as new. Another uid is another object of the same name.
bool is_known(const ObjectFacts& known, const ObjectFacts& told) {
  return known.version > told.version || (known.version == told.version && known.uid == told.uid);
}

// Nobody tells the queue whether a pod uses its GPU, so nobody is to be ended for not doing so.
jobs::Settings without_idle(jobs::Settings settings) {
  settings.idle = {};
  for (jobs::QueueSettings& queue : settings.queues) queue.idle.reset();
  return settings;
}

std::set<model::GpuUuid> lost_gpus(const GpuNodeFacts& node) {
  std::set<model::GpuUuid> lost;
  for (const agent::MachineGpu& gpu : node.state.gpus) {
    if (gpu.lost) lost.insert(gpu.uuid);
  }
  return lost;
}

}  // namespace

ClusterQueue::ClusterQueue(Options options)
    : options_(std::move(options)), random_(options_.seed) {}

ClusterQueue::~ClusterQueue() = default;

Result<std::unique_ptr<ClusterQueue>> ClusterQueue::create(Options options) {
  std::unique_ptr<ClusterQueue> made(new ClusterQueue(std::move(options)));
  DIVVY_TRY(queue, jobs::Queue::create(without_idle(made->options_.settings)));
  made->queue_ = std::move(queue);
  return made;
}

Status ClusterQueue::set_settings(jobs::Settings settings) {
  composed_ = compose_queues(settings, queue_objects_);
  jobs::Settings all = without_idle(composed_.settings);
  for (const std::string& path : named_queues_) {
    const bool known = std::ranges::any_of(
        all.queues, [&path](const jobs::QueueSettings& queue) { return queue.path == path; });
    if (known || composed_.paths.contains(path)) continue;
    all.queues.emplace_back();
    all.queues.back().path = path;
  }
  DIVVY_RETURN_IF_ERROR(queue_->set_settings(std::move(all)));
  options_.settings = std::move(settings);
  touch_waiting();
  pass_due_ = true;
  return {};
}

// --- Documents ---

Status ClusterQueue::see(ObjectKind kind, const json::object& object) {
  switch (kind) {
    case ObjectKind::kPod:
      return see_pod(object);
    case ObjectKind::kClaim:
      return see_claim(object);
    case ObjectKind::kGpuNode:
      return see_gpu_node(object);
    case ObjectKind::kNode:
      return see_node(object);
    case ObjectKind::kNamespace:
      return see_namespace(object);
    case ObjectKind::kQueue:
      return see_queue(object);
    case ObjectKind::kPolicy:
      return see_policy(object);
    case ObjectKind::kCapacityPlan:
      return see_capacity_plan(object);
  }
  return {};
}

Status ClusterQueue::see_pod(const json::object& object) {
  DIVVY_TRY(facts, read_pod(object));
  if (!facts) {
    if (const auto other = read_object(object)) see_other(other->key(), object);
    return {};
  }
  if (!facts->refers_to.empty()) {
    see_referring(*std::move(facts));
    return {};
  }
  if (facts->by_slots) holdings_changed_ = true;
  const std::string key = facts->object.key();
  const auto known = uids_.find(key);
  if (known != uids_.end()) {
    Work& work = *find(known->second);
    if (is_known(work.pod.object, facts->object)) return {};
    if (work.uid() == facts->object.uid) {
      work.pod = *std::move(facts);
      if (work.pod.ended) note_end(work);
      touch(work.uid());
      return {};
    }
    pod_gone(key, work.uid());
  }
  const std::string uid = facts->object.uid;
  if (Work* const before = find(uid)) {
    // It went and its claim did not, or somebody tells of it once more after its end.
    if (is_known(before->pod.object, facts->object)) return {};
    before->pod = *std::move(facts);
    before->gone = false;
  } else {
    enter_gang(works_.emplace(uid, *std::move(facts)).first->second);
    holdings_changed_ = true;
  }
  uids_[key] = uid;
  touch(uid);
  return {};
}

void ClusterQueue::pod_gone(const std::string& key, const std::string& uid) {
  see_other(key, {});
  const auto referring = referring_.find(key);
  if (referring != referring_.end() && referring->second.object.uid == uid) forget_referring(key);
  const auto known = uids_.find(key);
  if (known == uids_.end() || known->second != uid) return;
  uids_.erase(known);
  Work& work = *find(uid);
  work.gone = true;
  note_end(work);
  if (work.pod.by_slots) holdings_changed_ = true;
  touch(uid);
}

// What its node says from here on counts, also if it comes in the same round as the word of the
// end: otherwise this one would hold a slice that one which is started anew does not.
void ClusterQueue::note_end(Work& work) const {
  const auto node = gpu_nodes_.find(work.pod.node);
  if (work.heard_at_end || node == gpu_nodes_.end()) return;
  work.heard_at_end = node->second.facts.heartbeat;
}

Status ClusterQueue::see_claim(const json::object& object) {
  DIVVY_TRY(facts, read_claim(object));
  if (!facts) return {};
  const std::string key = facts->object.key();
  const auto known = claims_.find(key);
  if (known != claims_.end()) {
    if (is_known(known->second.object, facts->object)) return {};
    if (known->second.object.uid != facts->object.uid) touch(known->second.owner);
    // Who speaks for a claim that we did not make is our own word.
    if (facts->by_hand) facts->owner = known->second.owner;
  } else if (facts->by_hand) {
    facts->owner.clear();
  }
  touch(facts->owner);
  holdings_changed_ = true;
  const bool by_hand = facts->by_hand;
  claims_.insert_or_assign(key, *std::move(facts));
  if (by_hand) find_speaker(key);
  return {};
}

void ClusterQueue::claim_gone(const std::string& key, const std::string& uid) {
  const auto known = claims_.find(key);
  if (known == claims_.end() || known->second.object.uid != uid) return;
  touch(known->second.owner);
  claims_.erase(known);
  holdings_changed_ = true;
}

Status ClusterQueue::see_gpu_node(const json::object& object) {
  DIVVY_TRY(facts, read_gpu_node(object));
  const auto [found, is_new] = gpu_nodes_.try_emplace(facts.object.name, KnownGpuNode{facts});
  KnownGpuNode& known = found->second;
  if (!is_new) {
    if (is_known(known.facts.object, facts.object)) return {};
    if (known.facts.heartbeat != facts.heartbeat) known.is_new = true;
    if (known.facts.held != facts.held || !lingering_.empty()) holdings_changed_ = true;
    const bool let_go = !leaving_.empty() && (known.facts.held != facts.held || known.is_new);
    if (known.facts.state != facts.state) fleet_changed_ = true;
    const bool failures_changed = lost_gpus(known.facts) != lost_gpus(facts);
    known.facts = std::move(facts);
    if (failures_changed || let_go) touch_placed(found->first);
    return {};
  }
  // One that was there before tells nothing about when.
  known.is_new = false;
  holdings_changed_ = true;
  fleet_changed_ = true;
  touch_placed(found->first);
  return {};
}

Status ClusterQueue::see_node(const json::object& object) {
  DIVVY_TRY(facts, read_node(object));
  const auto known = nodes_.find(facts.object.name);
  if (known != nodes_.end()) {
    const NodeFacts& before = known->second;
    if (is_known(before.object, facts.object)) return {};
    const bool same_taints = before.taints == facts.taints;
    if (!same_taints) touch_waiting();
    if (!same_taints || before.unschedulable != facts.unschedulable ||
        before.ready != facts.ready || before.labels != facts.labels) {
      fleet_changed_ = true;
    }
  } else {
    if (!facts.taints.empty()) touch_waiting();
    fleet_changed_ = true;
  }
  nodes_.insert_or_assign(facts.object.name, std::move(facts));
  return {};
}

Status ClusterQueue::see_namespace(const json::object& object) {
  DIVVY_TRY(facts, read_namespace(object));
  const auto known = namespaces_.find(facts.object.name);
  if (known != namespaces_.end() && is_known(known->second.object, facts.object)) return {};
  if (known == namespaces_.end() || known->second.queue != facts.queue) touch_waiting();
  // A queue that a namespace names is there; what it is promised the settings say.
  if (model::check_queue_path(facts.queue) && named_queues_.insert(facts.queue).second) {
    if (const Status set = set_settings(options_.settings); !set) {
      log_error("queue of a namespace not added",
                {{"queue", facts.queue}, {"reason", set.error().message}});
    }
  }
  policies_told_ = false;
  namespaces_.insert_or_assign(facts.object.name, std::move(facts));
  return {};
}

void ClusterQueue::gone(ObjectKind kind, const json::object& object) {
  const auto told = read_object(object);
  if (!told) return;
  switch (kind) {
    case ObjectKind::kPod:
      pod_gone(told->key(), told->uid);
      break;
    case ObjectKind::kClaim:
      claim_gone(told->key(), told->uid);
      break;
    case ObjectKind::kGpuNode:
      if (gpu_nodes_.erase(told->name) != 0) holdings_changed_ = fleet_changed_ = true;
      break;
    case ObjectKind::kNode:
      if (nodes_.erase(told->name) != 0) fleet_changed_ = true;
      break;
    case ObjectKind::kNamespace:
      namespaces_.erase(told->name);
      policies_told_ = false;
      break;
    case ObjectKind::kQueue:
      queue_gone(*told);
      break;
    case ObjectKind::kPolicy:
      policy_gone(*told);
      break;
    case ObjectKind::kCapacityPlan:
      capacity_plan_gone(*told);
      break;
  }
}

// What they have is to be looked at again.
void ClusterQueue::touch_placed(const std::string& node) {
  for (const auto& [uid, work] : works_) {
    if (work.stage == Stage::kPlaced && work.place->node == node) touch(uid);
  }
}

// What they may have, or where they may go, is to be looked at again.
void ClusterQueue::touch_waiting() {
  for (auto& [uid, work] : works_) {
    if (work.stage == Stage::kQueued) work.bound_when_queued = "?";
    if (work.stage == Stage::kQueued || work.stage == Stage::kIdle) touch(uid);
  }
}

// --- The round ---

std::vector<Action> ClusterQueue::decide(WallTime now) {
  for (auto& [name, node] : gpu_nodes_) {
    if (!std::exchange(node.is_new, false)) continue;
    const bool was_silent = now - node.heard() > options_.silence;
    node.changed = now;
    if (was_silent) fleet_changed_ = true;
  }
  settle_queues();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    touch(timers_.begin()->second);
    timers_.erase(timers_.begin());
  }
  // In the order in which they came, whoever told of them first.
  std::vector<Work*> changed;
  for (const std::string& uid : std::exchange(dirty_, {})) {
    if (Work* const work = find(uid)) changed.push_back(work);
  }
  std::ranges::sort(changed, {}, [](const Work* work) {
    return std::pair(work->pod.object.created, work->uid());
  });
  for (Work* const work : changed) settle(*work, now);
  adopt_again(now);
  if (std::exchange(holdings_changed_, false)) {
    settle_holdings(now);
    count_overbooked(now);
  }
  update_fleet(now);
  restore_adopted(now);
  // What is found out of a gang may lead to more; whatever is left comes with the next round.
  for (int i = 0; i < kGangRounds; ++i) {
    settle_gangs(now);
    for (const std::string& uid : std::exchange(to_submit_, {})) {
      if (Work* const work = find(uid)) submit(*work, now);
    }
    if (dirty_gangs_.empty()) break;
  }
  for (Work* const work : changed) {
    if (!work->gone || work->stage != Stage::kIdle || work->claim_busy) continue;
    // An answer may have come after the word that the claim is gone; nobody would tell again.
    const auto claim = claims_.find(work->claim_key());
    const std::string claim_key = work->claim_key();
    if (claim != claims_.end() && claim->second.owner == work->uid() && !claim->second.allocated &&
        !claim->second.by_hand) {
      claims_.erase(claim);
    }
    leave_gang(*work);
    works_.erase(std::string(work->uid()));
    find_speaker(claim_key);
  }
  go_on_moving(now);
  const auto next_pass = queue_->next_pass(now);
  if (std::exchange(pass_due_, false) || (next_pass && *next_pass <= now)) {
    carry(queue_->pass(now), now);
    static_cast<void>(queue_->take_changes());
    queues_told_ = false;
    capacity_told_ = false;
  }
  look_for_moves(now);
  release_gates(now);
  tell_due(now);
  tell_queues(now);
  tell_policies(now);
  tell_capacity(now);
  return std::exchange(actions_, {});
}

std::optional<WallTime> ClusterQueue::next(WallTime now) const {
  std::optional<WallTime> next;
  const auto at = [&](WallTime time) {
    time = std::max(time, now);
    next = next ? std::min(*next, time) : time;
  };
  if (!dirty_.empty() || !dirty_gangs_.empty() || !to_adopt_again_.empty() || holdings_changed_ ||
      fleet_changed_ || queues_changed_ || pass_due_) {
    at(now);
  }
  if (!queues_told_ && !queue_objects_.empty()) at(telling_queues_rests_);
  if (!policies_told_ && !policies_.empty()) at(telling_policies_rests_);
  if (options_.capacity_plans && !capacity_told_ && !capacity_busy_) at(capacity_rests_);
  if (!timers_.empty()) at(timers_.begin()->first);
  if (!to_tell_.empty()) at(std::max(to_tell_.begin()->first, telling_rests_));
  if (const auto pass = queue_->next_pass(now)) at(*pass);
  if (moving_) {
    at(moving_->due);
  } else if (options_.defragmentation.mode != Defragmentation::kOff && queue_->waiting() != 0) {
    at(look_for_moves_at_);
  }
  for (const auto& [name, node] : gpu_nodes_) {
    const WallTime silent = node.heard() + options_.silence;
    if (silent >= now) at(silent + std::chrono::nanoseconds(1));
  }
  return next;
}

std::map<std::string, ClusterQueue::Booking> ClusterQueue::bookings() const {
  std::map<std::string, Booking> bookings;
  for (const auto& [uid, work] : works_) {
    if (!work.place) continue;
    const ClaimFacts* const claim = claim_of(work);
    Booking& booking = bookings[claim == nullptr ? uid : claim->object.uid];
    booking.node = work.place->node;
    for (const AllocatedSlice& one : work.place->slices) booking.slices.push_back(one.slice);
  }
  for (const auto& [key, holding] : holdings_) {
    bookings[key] = {holding.node, holding.slices};
  }
  return bookings;
}

std::size_t ClusterQueue::entries_kept() const {
  return works_.size() + uids_.size() + referring_.size() + referrers_.size() + claims_.size() +
         jobs_.size() + holdings_.size() + lingering_.size() + dirty_.size() + timers_.size() +
         to_tell_.size() + gated_.size() + open_.size() + adopted_.size() + to_submit_.size() +
         leaving_.size() + to_adopt_again_.size() + in_flight_.size() + gangs_.size() +
         others_.size() + dirty_gangs_.size() + (moving_ ? 1 : 0) + (planned_ ? 1 : 0);
}

}  // namespace divvy::kube
