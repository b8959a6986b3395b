// Pods that are moved so that one that waits finds its GPUs in one piece (defragmentation.h). One
// pod at a time: it is evicted, its place is kept for whom it is made free, and where it goes is
// kept for the pod that its owner makes in its stead. When that runs, what else has to move is
// planned anew, with fewer moves than before, so that a plan ends whatever happens meanwhile.
#include <algorithm>

#include "base/log.h"
#include "kube/cluster_queue.h"

namespace divvy::kube {
namespace {

using namespace std::chrono_literals;

// Of those in line, from the front, for whom moves are planned.
constexpr std::size_t kMostLooked = 8;

// Whether the one may have the place of the other.
bool is_alike(const model::JobSpec& successor, const model::JobSpec& before) {
  // Nodes that did not take the one may take the other.
  model::Where one = successor.where;
  model::Where other = before.where;
  one.nodes_denied.clear();
  other.nodes_denied.clear();
  return successor.request == before.request && one == other && successor.mode == before.mode &&
         successor.job_class == before.job_class && successor.queue == before.queue &&
         successor.devices == before.devices;
}

bool share_a_gpu(const std::vector<AllocatedSlice>& have, const std::vector<model::Slice>& get) {
  return std::ranges::any_of(have, [&get](const AllocatedSlice& one) {
    return std::ranges::any_of(
        get, [&one](const model::Slice& slice) { return slice.gpu() == one.slice.gpu(); });
  });
}

// "gpu0 and 0.5 of gpu1 of node-a"
std::string where_text(const GpuNodes& nodes, const std::string& name,
                       const std::vector<model::Slice>& slices) {
  const auto node = nodes.find(name);
  std::string text;
  for (const model::Slice& slice : slices) {
    std::string gpu = slice.gpu().str();
    if (node != nodes.end()) {
      for (const agent::MachineGpu& known : node->second.facts.state.gpus) {
        if (known.uuid == slice.gpu()) gpu = fmt::format("gpu{}", known.index);
      }
    }
    if (!text.empty()) text += " and ";
    text += slice.whole_gpu() ? gpu : fmt::format("{} of {}", slice.share(), gpu);
  }
  return fmt::format("{} of {}", text, name);
}

}  // namespace

// Only a pod that stands alone and of which somebody makes another one, anywhere.
bool ClusterQueue::is_movable(const Work& work, WallTime now) {
  const PodFacts& pod = work.pod;
  if (work.stage != Stage::kPlaced || !work.lives() || !work.bound()) return false;
  if (work.evicted || !work.leaves.empty()) return false;
  if (!pod.request || !pod.refers_to.empty() || work.ranks.size() != 1) return false;
  if (!pod.is_owned || pod.owner_kind == "DaemonSet" || pod.owner_kind == "Node") return false;
  const Gang* const gang = gang_of(work);
  if (gang != nullptr && (!gang->size || gang->size->is_gang())) return false;
  if (now - work.place->at < options_.defragmentation.least_stay) return false;
  return pod.says_movable ? *pod.says_movable : is_movable_in(pod.object.space);
}

Result<std::optional<jobs::MovePlan>> ClusterQueue::plan_for(model::JobId job, std::uint32_t most,
                                                             WallTime now) {
  return queue_->plan_moves(job, most, now, [this, now](model::JobId id) {
    const auto pods = jobs_.find(id);
    if (pods == jobs_.end() || pods->second.size() != 1) return false;
    const Work* const work = find(pods->second.front());
    return work != nullptr && is_movable(*work, now);
  });
}

PlannedMoves ClusterQueue::in_words(model::JobId job, const jobs::MovePlan& plan) {
  PlannedMoves words;
  words.pod = name_of(job);
  std::set<std::string> nodes;
  for (const model::JobMember& member : plan.place) nodes.insert(member.node);
  words.node = fmt::format("{}", fmt::join(nodes, ", "));
  words.moves.reserve(plan.moves.size());
  for (const jobs::Move& move : plan.moves) {
    const model::JobMember& now = queue_->find(move.job)->members.at(move.to.rank);
    words.moves.push_back({find(jobs_.at(move.job).front())->pod.object.key(),
                           where_text(gpu_nodes_, now.node, now.slices),
                           where_text(gpu_nodes_, move.to.node, move.to.slices)});
  }
  words.before = plan.before;
  words.after = plan.after;
  return words;
}

std::uint32_t ClusterQueue::moves_left_this_hour(WallTime now) {
  while (!moved_at_.empty() && now - moved_at_.front() >= 1h) moved_at_.pop_front();
  const auto made = static_cast<std::uint32_t>(moved_at_.size());
  return options_.defragmentation.moves_per_hour -
         std::min(made, options_.defragmentation.moves_per_hour);
}

ClusterQueue::Moves ClusterQueue::moves() const {
  Moves moves = moves_;
  moves.under_way = moving_.has_value();
  return moves;
}

// --- The plan ---

void ClusterQueue::look_for_moves(WallTime now) {
  const DefragmentationRules& rules = options_.defragmentation;
  if (rules.mode == Defragmentation::kOff || moving_) return;
  if (queue_->waiting() == 0) planned_.reset();
  if (queue_->waiting() == 0 || now < look_for_moves_at_) return;
  // One that was given up may still be ending.
  const Work* const last = find(last_moved_);
  if (last != nullptr && last->stage == Stage::kPlaced && last->evicted) {
    look_for_moves_at_ = now + rules.look_again;
    return;
  }
  look_for_moves_at_ = now + rules.look_again;
  const bool dry_run = rules.mode == Defragmentation::kDryRun;
  const std::uint32_t most =
      dry_run ? rules.moves : std::min(rules.moves, moves_left_this_hour(now));
  const std::optional<PlannedMoves> before = std::exchange(planned_, std::nullopt);
  const model::JobId before_for = std::exchange(planned_for_, {});
  std::size_t looked = 0;
  for (const model::JobId id : queue_->order()) {
    if (most == 0 || looked++ == kMostLooked) break;
    const auto pods = jobs_.find(id);
    const Work* const first = pods == jobs_.end() ? nullptr : find(pods->second.front());
    if (first == nullptr || first->bound() || now < first->moves_not_before) continue;
    if (now - queue_->find(id)->submitted < rules.patience) continue;
    // Others make way for it already.
    if (queue_->why_it_waits(id, now).kind == jobs::WaitKind::kMakingRoom) continue;
    const auto plan = plan_for(id, most, now);
    if (!plan || !*plan || (*plan)->moves.empty()) continue;
    const jobs::MovePlan& found = **plan;
    PlannedMoves words = in_words(id, found);
    if (!dry_run &&
        !begin_move(id, found, 1, static_cast<std::uint32_t>(found.moves.size()) - 1, now)) {
      continue;
    }
    planned_ = std::move(words);
    planned_for_ = id;
    break;
  }
  if (planned_ != before) capacity_told_ = false;
  if (!dry_run || (planned_ == before && planned_for_ == before_for)) return;
  if (before && before_for != planned_for_) tell_moves(before_for, "", now);
  if (!planned_) return;
  const std::string text = describe(*planned_);
  tell_moves(planned_for_, text + " (a dry run: nobody is)", now);
  tell_event(*find(jobs_.at(planned_for_).front()), "Normal", "DivvyWouldMove",
             fmt::format("{}; {}. This is a dry run", text, describe_gain(*planned_)), now);
}

void ClusterQueue::tell_moves(model::JobId job, const std::string& text, WallTime now) {
  const auto pods = jobs_.find(job);
  if (pods == jobs_.end()) return;
  for (const std::string& uid : pods->second) {
    Work* const work = find(uid);
    if (work == nullptr || work->moves == text) continue;
    work->moves = text;
    tell_soon(*work, now);
  }
}

// --- One move ---

// The first of the plan. False: it cannot be made so, and nothing has happened.
bool ClusterQueue::begin_move(model::JobId job, const jobs::MovePlan& plan, std::uint32_t made,
                              std::uint32_t left, WallTime now) {
  const jobs::Move& step = plan.moves.front();
  Work& pod = *find(jobs_.at(step.job).front());
  // Its successor may come while it still ends.
  if (pod.place->node == step.to.node && share_a_gpu(pod.place->slices, step.to.slices)) {
    return false;
  }
  const model::JobSpec& spec = queue_->find(step.job)->spec;
  const std::string who = name_of(job);
  const PlannedMoves words = in_words(job, plan);
  const std::uint32_t all = made + left;
  PodMove move(spec);
  move.job = job;
  move.first = jobs_.at(job).front();
  move.made = made;
  move.left = left;
  move.pod = pod.uid();
  move.name = pod.pod.object.key();
  move.pod_job = step.job;
  move.space = pod.pod.object.space;
  move.owner = pod.pod.owner;
  move.to = step.to;
  move.began = now;
  move.due = now + spec.grace + options_.defragmentation.arrival;
  move.place = plan.place;
  moving_ = std::move(move);
  keep_places(now);
  moved_at_.push_back(now);
  last_moved_ = pod.uid();
  ++moves_.pods;

  const PlannedMoves::Step& said = words.moves.front();
  const std::string how = fmt::format("pod {} moves from {} to {}, so that it fits on {}: {} of {}",
                                      said.pod, said.from, said.to, words.node, made, all);
  tell_moves(job, how, now);
  tell_event(*find(moving_->first), "Normal", "DivvyMakesRoom", how, now);
  const std::string why =
      fmt::format("moved to {}, so that {} finds its GPUs in one piece", said.to, who);
  leaving_[step.job] = Leaving{.for_others = true};
  pod.leaves = why;
  leave(pod, why, now);
  return true;
}

// As much of a slice as nobody has: a GPU that becomes free bit by bit is kept bit by bit.
std::optional<model::Slice> ClusterQueue::left_of(const std::string& node,
                                                  const model::Slice& slice) const {
  std::uint64_t share = 0;
  std::uint64_t memory = 0;
  const auto add = [&](const model::Slice& held) {
    if (held.gpu() != slice.gpu()) return;
    share += held.share().thousandths();
    memory += held.memory().count();
  };
  for (const auto& [uid, work] : works_) {
    const bool counts = work.stage != Stage::kPlaced || work.job != model::JobId();
    if (!work.place || work.place->node != node || !counts) continue;
    for (const AllocatedSlice& one : work.place->slices) add(one.slice);
  }
  for (const auto& [key, holding] : holdings_) {
    if (holding.node == node) std::ranges::for_each(holding.slices, add);
  }
  if (share == 0 && memory == 0) return slice;
  const auto known = gpu_nodes_.find(node);
  if (known == gpu_nodes_.end() || share >= Share::kWhole) return std::nullopt;
  const auto& gpus = known->second.facts.state.gpus;
  const auto gpu = std::ranges::find(gpus, slice.gpu(), &agent::MachineGpu::uuid);
  if (gpu == gpus.end() || memory >= gpu->memory.count()) return std::nullopt;
  auto left = model::Slice::create(
      slice.gpu(), std::min(slice.memory(), Bytes(gpu->memory.count() - memory)),
      std::min(slice.share(), Share(static_cast<std::uint32_t>(Share::kWhole - share))),
      slice.kind());
  if (!left) return std::nullopt;
  return *std::move(left);
}

// For whom others move, and for the one that is on its way.
void ClusterQueue::keep_places(WallTime now) {
  give_up_places(now);
  PodMove& move = *moving_;
  const model::Job* const job = queue_->find(move.job);
  if (job == nullptr) return;
  const std::string& space = find(move.first)->pod.object.space;
  move.kept_for_job.reserve(move.place.size());
  for (const model::JobMember& member : move.place) {
    Holding kept{space, member.node, {}, {}, job->spec.queue};
    for (const model::Slice& slice : member.slices) {
      if (auto left = left_of(member.node, slice)) kept.slices.push_back(*std::move(left));
    }
    take(kept, now);
    move.kept_for_job.push_back(std::move(kept));
  }
  if (move.successor.empty()) {
    move.kept_for_successor =
        Holding{move.space, move.to.node, move.to.slices, {}, move.spec.queue};
    take(*move.kept_for_successor, now);
  }
  restore_adopted(now);
}

void ClusterQueue::give_up_places(WallTime now) {
  for (Holding& place : moving_->kept_for_job) drop(place, now);
  moving_->kept_for_job.clear();
  if (moving_->kept_for_successor) drop(*moving_->kept_for_successor, now);
  moving_->kept_for_successor.reset();
}

// A pod came into the queue: it may be the one that was made in the stead of the one that moves.
void ClusterQueue::arrived(const Work& work, WallTime now) {
  if (!moving_ || !moving_->successor.empty() || work.uid() == moving_->pod) return;
  // Times of objects are in whole seconds.
  if (work.pod.object.space != moving_->space || work.pod.owner != moving_->owner || work.bound() ||
      work.pod.object.created + 1s <= moving_->began ||
      !is_alike(queue_->find(work.job)->spec, moving_->spec)) {
    return;
  }
  moving_->successor = work.uid();
  if (moving_->kept_for_successor) drop(*moving_->kept_for_successor, now);
  moving_->kept_for_successor.reset();
  queue_->give_place(work.job, {&moving_->to, 1});
}

void ClusterQueue::go_on_moving(WallTime now) {
  if (!moving_) return;
  PodMove& move = *moving_;
  const Work* const first = find(move.first);
  if (first == nullptr || first->stage != Stage::kQueued || !first->lives() || first->bound()) {
    // It found another place, or is gone.
    end_moves(now);
    return;
  }
  // It may have been submitted anew.
  move.job = first->job;
  if (move.step == PodMove::Step::kLeaving && !has_left(now)) return;
  if (!moving_ || !has_started(now)) return;
  next_move("what is left of the plan is not possible any more", now);
}

// Whether its node has let go of the pod that is moved.
bool ClusterQueue::has_left(WallTime now) {
  PodMove& move = *moving_;
  const Work* const pod = find(move.pod);
  if (pod != nullptr && pod->stage == Stage::kPlaced) {
    if (pod->lives() && pod->leaves.empty()) {
      // Nothing was moved, and it is spared for a while: others are looked for.
      --move.made;
      ++move.left;
      --moves_.pods;
      if (!moved_at_.empty()) moved_at_.pop_back();
      next_move(fmt::format("a disruption budget keeps pod {}", move.name), now);
    } else if (now >= move.due) {
      give_up_moves(fmt::format("pod {} has not ended in time", move.name), now);
    }
    return false;
  }
  move.step = PodMove::Step::kArriving;
  move.due = now + options_.defragmentation.arrival;
  // With what it has left.
  keep_places(now);
  return true;
}

// Whether the successor runs, or none comes.
bool ClusterQueue::has_started(WallTime now) {
  PodMove& move = *moving_;
  const Work* successor = move.successor.empty() ? nullptr : find(move.successor);
  if (successor != nullptr && !successor->lives()) successor = nullptr;
  if (move.step == PodMove::Step::kStarting) {
    if (successor == nullptr) return true;
    if (successor->bound()) return true;
    const bool refused = successor->stage != Stage::kPlanned && successor->stage != Stage::kPlaced;
    if (refused || now >= move.due) {
      give_up_moves(fmt::format("pod {}, which came for {}, does not start on {}",
                                successor->pod.object.key(), move.name, move.to.node),
                    now);
    }
    return false;
  }
  // Whoever owns it may want fewer by now.
  if (successor == nullptr) return now >= move.due;
  if (successor->stage == Stage::kPlanned || successor->stage == Stage::kPlaced) {
    move.step = PodMove::Step::kStarting;
    move.due = now + options_.defragmentation.arrival;
    return successor->bound();
  }
  if (now >= move.due) {
    give_up_moves(fmt::format("pod {}, which came for {}, found no place",
                              successor->pod.object.key(), move.name),
                  now);
  } else if (successor->stage == Stage::kQueued) {
    queue_->give_place(successor->job, {&move.to, 1});
    pass_due_ = true;
  }
  return false;
}

// Things may be others by now: what is left is planned anew. `why_not` is told where that is
// nothing that helps.
void ClusterQueue::next_move(const std::string& why_not, WallTime now) {
  give_up_places(now);
  const model::JobId job = moving_->job;
  const std::uint32_t left = std::min(moving_->left, moves_left_this_hour(now));
  const auto plan = plan_for(job, left, now);
  if (plan && *plan && (*plan)->moves.empty()) {
    queue_->give_place(job, (*plan)->place);
    ++moves_.finished;
    end_moves(now);
    return;
  }
  const std::uint32_t made = moving_->made + 1;
  if (plan && *plan &&
      begin_move(job, **plan, made, static_cast<std::uint32_t>((*plan)->moves.size()) - 1, now)) {
    planned_ = in_words(job, **plan);
    planned_for_ = job;
    return;
  }
  give_up_moves(why_not, now);
}

void ClusterQueue::give_up_moves(const std::string& why, WallTime now) {
  const auto pods = jobs_.find(moving_->job);
  if (pods != jobs_.end()) {
    for (const std::string& uid : pods->second) {
      Work* const work = find(uid);
      if (work != nullptr) work->moves_not_before = now + options_.defragmentation.rest;
    }
    if (const Work* const first = find(moving_->first)) {
      tell_event(*first, "Normal", "DivvyMovesStopped",
                 fmt::format("no more pods are moved for it: {}", why), now);
    }
  }
  log_info("moves given up", {{"for", name_of(moving_->job)}, {"reason", why}});
  ++moves_.given_up;
  end_moves(now);
}

void ClusterQueue::end_moves(WallTime now) {
  give_up_places(now);
  // One whose eviction nobody has answered yet is not asked to go any more: it would go for nobody.
  Work* const pod = find(moving_->pod);
  if (pod != nullptr && pod->lives() && !pod->leaves.empty() && (!pod->evicted || pod->pod_busy)) {
    pod->leaves.clear();
    leaving_.erase(moving_->pod_job);
  }
  tell_moves(moving_->job, "", now);
  moving_.reset();
  planned_.reset();
  planned_for_ = {};
  capacity_told_ = false;
  pass_due_ = true;
}

}  // namespace divvy::kube
