// Pods as jobs of the queue, and the fleet with everything that is held on it.
#include <algorithm>
#include <boost/json.hpp>
#include <numeric>

#include "base/check.h"
#include "base/log.h"
#include "kube/cluster_queue.h"
#include "kube/node_affinity.h"
#include "kube/object_names.h"
#include "model/name.h"

namespace divvy::kube {
namespace {

using model::JobState;

// A job that runs already, as far as the queue is concerned.
model::Job running_job(model::JobId id, const std::string& owner, model::JobSpec spec,
                       WallTime submitted, WallTime since) {
  model::Job job(id, owner, std::move(spec), submitted);
  Status became = job.become(JobState::kStarting, since, "it was placed before");
  DIVVY_CHECK(became.has_value(), "{}", became.error().message);
  became = job.become(JobState::kRunning, since, "started");
  DIVVY_CHECK(became.has_value(), "{}", became.error().message);
  job.attempt = 1;
  return job;
}

// What each container has, by rank; nothing where it is not what such a member can have: then it is
// counted slice by slice.
std::optional<std::vector<model::JobMember>> members_of(
    const Allocation& allocation, const std::vector<std::string>& containers) {
  std::vector<model::JobMember> members;
  std::size_t taken = 0;
  for (const std::string& container : containers) {
    model::JobMember member;
    member.rank = static_cast<std::uint32_t>(members.size());
    member.node = allocation.node;
    std::size_t parts = 0;
    for (const AllocatedSlice& one : allocation.slices) {
      if (one.request != container) continue;
      if (!one.slice.whole_gpu()) ++parts;
      member.slices.push_back(one.slice);
    }
    if (member.slices.empty() || parts > 1) return std::nullopt;
    taken += member.slices.size();
    members.push_back(std::move(member));
  }
  if (taken != allocation.slices.size()) return std::nullopt;
  return members;
}

// Only one that runs is told to make way: what was placed and has not begun yet soon does.
constexpr jobs::Seconds kLeastRun{1};

std::string owner_of(const std::string& space) { return space.empty() ? "kubernetes" : space; }

}  // namespace

// --- Pods ---

// The namespace says which queue it is; a pod may say which one below.
std::string ClusterQueue::queue_of(const std::string& space, const std::string& wanted) const {
  std::string queue(jobs::Settings::kDefaultQueue);
  const auto path_of = [this](const std::string& name) {
    const auto path = composed_.paths.find(name);
    return path == composed_.paths.end() ? name : path->second;
  };
  const auto known = namespaces_.find(space);
  if (known != namespaces_.end() && !known->second.queue.empty()) {
    queue = path_of(known->second.queue);
  }
  // By its path, or by the name of its object.
  for (const std::string& path : {wanted, path_of(wanted)}) {
    if (path.starts_with(queue + "/")) return path;
  }
  return queue;
}

// Taints of nodes that do not keep it away.
std::vector<std::string> ClusterQueue::tolerated_by(const PodFacts& pod) const {
  std::set<Taint> taints;
  for (const auto& [name, node] : nodes_) taints.insert(node.taints.begin(), node.taints.end());
  std::vector<std::string> tolerated;
  for (const Taint& taint : taints) {
    const bool is_tolerated = std::ranges::any_of(
        pod.tolerations, [&taint](const Toleration& one) { return tolerates(one, taint); });
    if (is_tolerated) tolerated.push_back(to_string(taint));
  }
  return tolerated;
}

// Of one that is bound and has no slice: for its node alone.
model::JobSpec ClusterQueue::spec_for(Work& work, WallTime now) {
  const PodFacts& pod = work.pod;
  model::JobSpec spec = pod.request->spec;
  spec.name = model::check_name("job", pod.object.name) ? pod.object.name : std::string();
  spec.queue = queue_of(pod.object.space, spec.queue);
  spec.holder = model::Holder::kPods;
  // The pod is there and waits, whether it fits or not.
  spec.hold_for_capacity = true;
  spec.preemptible = may_make_way(work);
  spec.grace = pod.grace;
  spec.minimum_run = kLeastRun;
  spec.array.reset();
  spec.after.clear();
  // All containers of a pod are on one node.
  spec.where.members_near = {model::Closeness::kNode, true};
  spec.where.spread.reset();
  for (const auto& [name, value] : pod.node_selector) spec.where.node_labels[name] = value;
  spec.where.tolerations = tolerated_by(pod);
  if (work.bound() && work.stage != Stage::kPlaced) {
    spec.where = {};
    spec.where.members_near = {model::Closeness::kNode, true};
    spec.where.nodes = {pod.node};
    PodFacts anything = pod;
    anything.tolerations = {{"", "", "", true}};
    spec.where.tolerations = tolerated_by(anything);
    return queue_->with_defaults(std::move(spec));
  }
  std::erase_if(work.avoided, [now](const auto& one) { return one.second <= now; });
  std::vector<std::string>& nodes = spec.where.nodes;
  const bool names_nodes = !nodes.empty();
  const auto avoids = [&work](const std::string& node) { return work.avoided.contains(node); };
  if (names_nodes && !std::ranges::all_of(nodes, avoids)) std::erase_if(nodes, avoids);
  // Otherwise kube-scheduler says so itself, and the pod is placed elsewhere: by slots it cannot
  // be.
  if (pod.by_slots && !names_nodes) {
    for (const auto& [name, node] : nodes_) {
      if (!admits(pod.affinity, node)) spec.where.nodes_denied.push_back(name);
    }
  }
  for (const auto& [node, until] : work.avoided) {
    if (!names_nodes) spec.where.nodes_denied.push_back(node);
  }
  if (const Gang* const gang = gang_of(work)) stay_near(*gang, work, spec);
  return queue_->with_defaults(std::move(spec));
}

void ClusterQueue::submit(Work& work, WallTime now) {
  if (work.stage != Stage::kIdle || !work.lives()) return;
  if (!work.gang.empty() && !work.joins && !work.bound()) {
    dirty_gangs_.insert(work.gang);
    return;
  }
  const PodFacts& pod = work.pod;
  work.gang_is_missing = false;
  const std::string before = std::exchange(work.refusal, {});
  if (!pod.request) {
    work.refusal = pod.request.error().message;
  } else if (pod.by_slots && !pod.gate && !work.bound()) {
    work.refusal =
        "its scheduling gate was removed before it had a place; it gets slices of the node that it "
        "is bound to, if there are any";
  } else if (!pod.by_slots && pod.claim.empty()) {
    work.refusal = fmt::format(
        "it names no resource claim \"{}\" in spec.resourceClaims, so it cannot be given a slice; "
        "create it again, through Divvy's webhook",
        kPodClaim);
  } else if (pod.gated_by_others && !work.bound()) {
    work.refusal = "it has other scheduling gates besides Divvy's, which go first";
  } else {
    model::JobSpec spec = spec_for(work, now);
    if (const Status fine = queue_->check(spec, owner_of(pod.object.space)); !fine) {
      work.refusal = fine.error().message;
    } else {
      work.job = std::exchange(next_job_, next_job_.next());
      WallTime since = pod.object.created;
      // One that takes the place of another has the age of its gang.
      const Gang* const gang = gang_of(work);
      if (gang != nullptr && gang->size && gang->size->created != WallTime()) {
        since = std::min(since, gang->size->created);
      }
      model::Job job(work.job, owner_of(pod.object.space), std::move(spec), since);
      job.not_before = std::exchange(work.not_before, std::nullopt);
      queue_->submit(std::move(job), now);
      take_ranks(work);
      work.stage = Stage::kQueued;
      work.bound_when_queued = pod.node;
      pass_due_ = true;
      arrived(work, now);
    }
  }
  if (work.refusal != before || !work.told_queued) tell_soon(work, now);
}

// Its claim says what it has: that is held, whatever anybody would decide now.
void ClusterQueue::adopt(Work& work, WallTime now) {
  work.stage = Stage::kPlaced;
  work.pass = 0;
  const Allocation& allocation = *work.place;
  auto members =
      work.pod.request ? members_of(allocation, work.pod.request->containers) : std::nullopt;
  if (!members) {
    // It is counted with those that no pod explains.
    work.job = {};
    holdings_changed_ = true;
    return;
  }
  work.job = std::exchange(next_job_, next_job_.next());
  take_ranks(work);
  model::Job job =
      running_job(work.job, owner_of(work.pod.object.space), spec_for(work, now),
                  work.pod.object.created, std::min(now, std::max(allocation.at, WallTime())));
  job.members = *std::move(members);
  adopted_.push_back(std::move(job));
}

void ClusterQueue::end_job(Work& work, WallTime now) {
  leave_planned(work);
  const bool had_place = work.place.has_value();
  work.place.reset();
  const Stage stage = std::exchange(work.stage, Stage::kIdle);
  if (had_place) holdings_changed_ = true;
  if (stage == Stage::kIdle || work.job == model::JobId()) return;
  const model::JobId id = std::exchange(work.job, {});
  const std::vector<std::uint32_t> ranks = std::exchange(work.ranks, {});
  pass_due_ = true;
  const auto pods = jobs_.find(id);
  for (const std::uint32_t rank : ranks) pods->second[rank].clear();
  const model::Job* const job = queue_->find(id);
  const bool alone = std::ranges::all_of(pods->second, &std::string::empty);
  if (!alone && job->state == JobState::kQueued) {
    dissolve(id);
    return;
  }
  if (!alone) {
    const std::uint32_t attempt = job->attempt;
    for (const std::uint32_t rank : ranks) queue_->member_left(id, attempt, rank, now);
    return;
  }
  jobs_.erase(pods);
  leaving_.erase(id);
  std::erase_if(adopted_, [id](const model::Job& one) { return one.id == id; });
  if (job == nullptr) return;
  if (job->state == JobState::kStarting) {
    queue_->start_refused(id, job->attempt, "it is not taken", now);
  }
  const std::size_t members = job->members.size();
  for (std::uint32_t rank = 0; rank < members && job->state != JobState::kQueued; ++rank) {
    queue_->member_ended(id, job->attempt, rank, {.at = now, .reason = "it let go"}, now);
  }
  // One that made way would wait again: its pods do not, somebody makes new ones.
  if (job->state == JobState::kQueued) {
    queue_->withdraw(id);
  } else {
    queue_->forget(id);
  }
}

// Its job is its own, with a member for each container.
void ClusterQueue::take_ranks(Work& work) {
  work.ranks.resize(work.pod.request->containers.size());
  std::iota(work.ranks.begin(), work.ranks.end(), 0U);
  jobs_[work.job].assign(work.ranks.size(), work.uid());
}

// Nothing was written and nothing will be.
void ClusterQueue::refuse_start(Work& work, const std::string& why, WallTime now) {
  const model::Job* const job = queue_->find(work.job);
  DIVVY_CHECK(job != nullptr && work.stage == Stage::kPlanned, "a pod without a planned place");
  tell_event(work, "Warning", "DivvyNotPlaced", why, now);
  if (in_attempt(work)) {
    fail_attempt(*gang_of(work), work, why, now);
    end_job(work, now);
    return;
  }
  leave_planned(work);
  queue_->start_refused(work.job, job->attempt, why, now);
  work.stage = Stage::kQueued;
  work.place.reset();
  holdings_changed_ = true;
  pass_due_ = true;
}

// Each pod of the job gets the place of its members.
void ClusterQueue::plan(const jobs::Start& start, WallTime now) {
  std::vector<std::string>& pods = jobs_.at(start.job);
  const model::JobSpec& spec = queue_->find(start.job)->spec;
  for (const model::JobMember& member : start.members) {
    Work& work = *find(pods.at(member.rank));
    const std::vector<std::string>& containers = work.pod.request->containers;
    if (work.stage != Stage::kPlanned) {
      work.stage = Stage::kPlanned;
      work.pass = pass_;
      ++open_[pass_];
      Allocation place;
      place.job_class = spec.job_class;
      place.mode = spec.mode.value_or(model::GpuMode::kTimeslice);
      place.at = std::chrono::floor<std::chrono::seconds>(now);
      place.node = member.node;
      const Gang* const gang = gang_of(work);
      place.awaits_go = gang != nullptr && gang->job == start.job && !work.pod.by_slots;
      work.place = std::move(place);
    }
    const std::size_t container = member.rank - work.ranks.front();
    for (const model::Slice& slice : member.slices) {
      work.place->slices.push_back({containers.at(container), new_device(), slice});
    }
  }
  if (Gang* const gang = gang_of(*find(pods.front()))) {
    if (gang->job == start.job) gang->attempt = start.members.size();
    dirty_gangs_.insert(find(pods.front())->gang);
  }
  // An elastic gang starts with as many as fit; the others come later.
  for (std::size_t rank = start.members.size(); rank < pods.size(); ++rank) {
    Work& late = *find(pods[rank]);
    late.stage = Stage::kIdle;
    late.job = {};
    late.ranks = {};
  }
  pods.resize(start.members.size());
}

void ClusterQueue::restore_adopted(WallTime now) {
  if (adopted_.empty()) return;
  const Status restored = queue_->restore(std::exchange(adopted_, {}), {}, {}, now);
  DIVVY_CHECK(restored.has_value(), "{}", restored.error().message);
  pass_due_ = true;
}

void ClusterQueue::carry(const std::vector<jobs::Decision>& decisions, WallTime now) {
  ++pass_;
  for (const jobs::Decision& decision : decisions) {
    if (const auto* const start = std::get_if<jobs::Start>(&decision)) {
      DIVVY_CHECK(jobs_.contains(start->job), "job {} is of no pod", start->job);
      plan(*start, now);
    } else if (const auto* const stop = std::get_if<jobs::Stop>(&decision)) {
      this->stop(*stop, now);
    }
  }
  for (const jobs::Decision& decision : decisions) {
    const auto* const start = std::get_if<jobs::Start>(&decision);
    if (start == nullptr) continue;
    const std::vector<std::string> pods = jobs_.at(start->job);
    for (std::size_t rank = 0; rank < pods.size(); ++rank) {
      Work* const work = find(pods[rank]);
      // A pod with several containers has several ranks.
      if (work == nullptr || work->stage != Stage::kPlanned || work->ranks.front() != rank)
        continue;
      write_place(*work, claim_of(*work), now);
    }
  }
}

std::string ClusterQueue::new_device() {
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string name = "s-";
  for (int i = 0; i < 16; ++i) name += kLetters[random_() % kLetters.size()];
  return name;
}

// --- What no pod explains ---

// Also where the word of what was written comes before the answer to the write.
bool ClusterQueue::explains(const Work& work, const ClaimFacts& claim) {
  if (work.job == model::JobId()) return false;
  if (work.stage == Stage::kPlaced) return work.claim_uid == claim.object.uid;
  return work.stage == Stage::kPlanned && work.place->node == claim.allocation->node &&
         work.place->slices == claim.allocation->slices;
}

void ClusterQueue::settle_holdings(WallTime now) {
  std::map<std::string, Holding> wanted;
  std::unordered_map<std::string_view, std::string_view> allocated;  // node by uid of the claim
  for (const auto& [key, claim] : claims_) {
    if (!claim.allocation) continue;
    allocated.emplace(claim.object.uid, claim.allocation->node);
    if (const Work* const work = find(claim.owner); work != nullptr && explains(*work, claim)) {
      continue;
    }
    Holding holding{claim.object.space, claim.allocation->node, {}};
    for (const AllocatedSlice& one : claim.allocation->slices) holding.slices.push_back(one.slice);
    wanted.emplace(fmt::format("{}@{}", claim.object.uid, holding.node), std::move(holding));
  }
  for (const auto& [uid, work] : works_) {
    if (work.lingers) {
      allocated.emplace(work.claim_uid, work.place->node);
    }
    const auto given = work.pod.by_slots ? given_to(work) : std::nullopt;
    if (!given) continue;
    allocated.emplace(uid, given->allocation->node);
    const bool explained = work.place && work.place->node == given->allocation->node &&
                           work.place->slices == given->allocation->slices &&
                           work.job != model::JobId();
    if (explained) continue;
    Holding holding{work.pod.object.space, given->allocation->node, {}};
    for (const AllocatedSlice& one : given->allocation->slices) holding.slices.push_back(one.slice);
    wanted.emplace(fmt::format("{}@{}", uid, holding.node), std::move(holding));
  }
  for (const auto& [name, node] : gpu_nodes_) {
    for (const HeldClaim& held : node.facts.held) {
      const auto claim = allocated.find(held.claim_uid);
      if (claim != allocated.end() && claim->second == name) continue;
      wanted.try_emplace(fmt::format("{}@{}", held.claim_uid, name),
                         Holding{held.space, name, held.slices});
    }
  }
  std::erase_if(lingering_, [this](const auto& one) {
    const auto node = gpu_nodes_.find(one.second.holding.node);
    return node == gpu_nodes_.end() || node->second.facts.heartbeat != one.second.heartbeat;
  });
  for (const auto& [key, one] : lingering_) wanted.try_emplace(key, one.holding);

  for (auto it = holdings_.begin(); it != holdings_.end();) {
    const auto still = wanted.find(it->first);
    if (still != wanted.end() && still->second.slices == it->second.slices) {
      wanted.erase(still);
      ++it;
      continue;
    }
    drop(it->second, now);
    it = holdings_.erase(it);
  }
  for (auto& [key, holding] : wanted) {
    take(holding, now);
    holdings_.emplace(key, std::move(holding));
  }
}

void ClusterQueue::take(Holding& holding, WallTime now) {
  for (const model::Slice& slice : holding.slices) {
    auto request = model::Request::parse(to_string(slice.share()), to_string(slice.memory()));
    if (!request) {
      log_error("slice not counted", {{"node", holding.node}, {"reason", request.error().message}});
      continue;
    }
    model::JobSpec spec(*std::move(request));
    spec.holder = model::Holder::kSlice;
    spec.preemptible = false;
    spec.queue = holding.queue.empty() ? queue_of(holding.space, "") : holding.queue;
    const model::JobId id = std::exchange(next_job_, next_job_.next());
    model::Job job = running_job(id, owner_of(holding.space), std::move(spec), now, now);
    job.members = {{0, holding.node, {slice}, std::nullopt}};
    holding.jobs.push_back(id);
    adopted_.push_back(std::move(job));
  }
}

void ClusterQueue::drop(Holding& holding, WallTime now) {
  for (const model::JobId id : holding.jobs) {
    std::erase_if(adopted_, [id](const model::Job& job) { return job.id == id; });
    const model::Job* const job = queue_->find(id);
    if (job == nullptr) continue;
    queue_->member_ended(id, job->attempt, 0, {.at = now, .reason = "it let go"}, now);
    queue_->forget(id);
  }
  pass_due_ = true;
}

// --- The fleet ---

// Two controllers can have written at once, each on its own. Nothing more comes there, and of those
// that nobody has reserved yet the last one is taken back.
void ClusterQueue::count_overbooked(WallTime /*now*/) {
  struct Sum {
    std::uint64_t share = 0;
    std::uint64_t memory = 0;
    Work* youngest = nullptr;
  };
  std::map<std::pair<std::string, model::GpuUuid>, Sum> sums;
  const auto add = [&sums](const std::string& node, const model::Slice& slice) -> Sum& {
    Sum& sum = sums[{node, slice.gpu()}];
    sum.share += slice.share().thousandths();
    sum.memory += slice.memory().count();
    return sum;
  };
  for (auto& [uid, work] : works_) {
    if (!work.place || (work.stage == Stage::kPlaced && work.job == model::JobId())) continue;
    const ClaimFacts* const claim = claim_of(work);
    const bool settled = work.stage != Stage::kPlaced || work.claim_busy || work.bound() ||
                         claim == nullptr || claim->reserved;
    for (const AllocatedSlice& one : work.place->slices) {
      Sum& sum = add(work.place->node, one.slice);
      if (settled) continue;
      const auto age = [](const Work& of) { return std::pair(of.place->at, of.uid()); };
      if (sum.youngest == nullptr || age(*sum.youngest) < age(work)) sum.youngest = &work;
    }
  }
  for (const auto& [key, holding] : holdings_) {
    for (const model::Slice& slice : holding.slices) add(holding.node, slice);
  }
  Overbooked overbooked;
  for (const auto& [name, node] : gpu_nodes_) {
    for (const agent::MachineGpu& gpu : node.facts.state.gpus) {
      const auto sum = sums.find({name, gpu.uuid});
      if (sum == sums.end()) continue;
      if (sum->second.share <= Share::kWhole && sum->second.memory <= gpu.memory.count()) continue;
      overbooked.emplace(name, gpu.uuid);
      Work* const work = sum->second.youngest;
      if (work == nullptr || work->claim_busy) continue;
      log_warning("allocation taken back: its GPU has not as much",
                  {{"pod", work->pod.object.key()}, {"node", name}, {"gpu", gpu.uuid}});
      clear_place(*work, *claim_of(*work));
    }
  }
  if (overbooked == overbooked_) return;
  overbooked_ = std::move(overbooked);
  fleet_changed_ = true;
}

void ClusterQueue::update_fleet(WallTime now) {
  // A node falls silent without a word.
  for (const auto& [name, node] : gpu_nodes_) {
    const auto& known = known_silent_;
    if ((now - node.heard() > options_.silence) != known.contains(name)) fleet_changed_ = true;
  }
  if (!std::exchange(fleet_changed_, false)) return;
  known_silent_.clear();
  for (const auto& [name, node] : gpu_nodes_) {
    if (now - node.heard() > options_.silence) known_silent_.insert(name);
  }
  const Status known = queue_->set_fleet(
      fleet_of(gpu_nodes_, nodes_, overbooked_, options_.topology, now, options_.silence));
  if (!known) log_error("nodes not usable by the queue", {{"reason", known.error().message}});
  for (auto& [uid, work] : works_) {
    // What it asks may be more than there was.
    if (work.stage == Stage::kIdle && !work.refusal.empty() && work.lives()) {
      to_submit_.push_back(uid);
    }
  }
  pass_due_ = true;
}

}  // namespace divvy::kube
