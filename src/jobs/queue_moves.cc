// Who goes elsewhere so that a job that waits finds its GPUs in one piece. Only planned where
// somebody asks: a move costs its job a stop and a start, which no pass decides on its own.
#include <algorithm>
#include <bit>
#include <map>

#include "base/check.h"
#include "base/text.h"
#include "jobs/queue.h"
#include "place/defrag.h"

namespace divvy::jobs {
namespace {

using model::JobState;

std::size_t gpus_of(const place::Spot& spot) {
  return static_cast<std::size_t>(std::popcount(spot.whole)) + (spot.part_device >= 0 ? 1U : 0U);
}

}  // namespace

// The member that is there, if it has not been moved yet: members of one job may be on equal spots.
std::optional<Move> Queue::move_of(model::JobId job, const place::Spot& from, const place::Spot& to,
                                   std::set<std::uint32_t>& moved) const {
  const model::Job& found = jobs_.at(job).job;
  for (const model::JobMember& member : found.members) {
    if (moved.contains(member.rank) || fleet_.spot_of(member, found.spec) != from) continue;
    moved.insert(member.rank);
    Move move{job, found.attempt, fleet_.members_at({&to, 1}, found.spec).front(), {}};
    move.to.rank = member.rank;
    move.text = fmt::format("rank {} moves to {}", member.rank, fleet_.describe(move.to));
    return move;
  }
  return std::nullopt;
}

// A part of a larger GPU has more memory, which counts.
bool Queue::within_limits(std::span<const Move> moves) const {
  std::map<model::JobId, Held> more;
  for (const Move& move : moves) {
    const model::JobMember& before = jobs_.at(move.job).job.members[move.to.rank];
    const Held now = held_by({&before, 1});
    const Held then = held_by({&move.to, 1});
    if (then.memory > now.memory) more[move.job].memory += then.memory - now.memory;
  }
  return std::ranges::all_of(more, [this](const auto& item) {
    const Entry& entry = jobs_.at(item.first);
    return !tree_.obstacle(entry.queue, entry.user, item.second);
  });
}

Result<std::optional<std::vector<Move>>> Queue::plan_moves(model::JobId job, std::size_t most,
                                                           WallTime now) {
  const Entry* const found = entry(job);
  if (found == nullptr || found->waits != Waits::kInLine) {
    return err(ErrorCode::kFailedPrecondition, "job {} does not wait for a place", job);
  }
  std::optional<std::vector<Move>> moves;
  place::Request request = request_for(*found);
  request.members = members_allowed(*found, booked_ahead());
  if (request.members == 0) return moves;
  // On a copy: policies learn from what they are asked, and a question decides nothing.
  place::Cluster cluster = fleet_.cluster();
  DIVVY_TRY(policy, place::make_policy(settings_.policy));
  place::Placer placer(cluster, std::move(policy));
  // Places that others are making for somebody are not to be filled by those who move.
  for (const auto& [id, claim] : claims_) place::hold(cluster, claim.spots);
  std::map<std::uint64_t, place::Request> movable;
  for (const model::JobId id : active_) {
    const Entry& other = *entry(id);
    const model::JobSpec& spec = other.job.spec;
    if (other.job.state != JobState::kRunning || !spec.may_make_way() || rests(other)) continue;
    // One that has ended holds its place until the others of its gang have, and cannot be moved.
    if (std::ranges::any_of(other.job.members, [](const auto& member) { return !!member.end; })) {
      continue;
    }
    if (now - *other.job.started < spec.minimum_run) continue;
    movable.emplace(id.value(), request_for(other));
    for (const place::HoldingId holding : other.holdings) {
      const place::Holding held = cluster.holding(holding);
      cluster.release(holding);
      cluster.take(held.spot, held.job, held.priority, true);
    }
  }
  const auto request_of = [&](place::HoldingId id) -> const place::Request* {
    const auto known = movable.find(cluster.holding(id).job);
    return known == movable.end() ? nullptr : &known->second;
  };
  const auto plan = place::plan_defrag(placer, request, request_of, {.moves = most});
  if (!plan) return moves;
  std::map<model::JobId, std::set<std::uint32_t>> moved;
  std::vector<Move> planned;
  for (const place::Move& step : plan->moves) {
    const model::JobId mover(cluster.holding(step.holding).job);
    auto move = move_of(mover, step.from, step.to, moved[mover]);
    if (!move) return moves;
    planned.push_back(*std::move(move));
  }
  if (within_limits(planned)) moves = std::move(planned);
  return moves;
}

Status Queue::resize(model::JobId job, std::vector<model::Slice> slices, const std::string& by,
                     WallTime now) {
  Entry* const found = entry(job);
  if (found == nullptr || found->job.state != JobState::kRunning ||
      found->job.spec.holder == model::Holder::kMembers) {
    return err(ErrorCode::kFailedPrecondition, "job {} holds no slices that can change", job);
  }
  const Held before = found->held;
  model::JobMember to = found->job.members.front();
  to.slices = std::move(slices);
  const Held after = held_by({&to, 1});
  const auto more = [](std::uint64_t now_held, std::uint64_t then) {
    return then > now_held ? then - now_held : 0;
  };
  const Held growth{more(before.share, after.share), more(before.memory, after.memory), 0};
  if (growth.share != 0 || growth.memory != 0) {
    if (const auto obstacle = tree_.obstacle(found->queue, found->user, growth)) {
      return err(ErrorCode::kResourceExhausted, "{}", tree_.describe(*obstacle, found->user));
    }
  }
  const std::string wanted = fleet_.describe(to);
  if (!member_moved({job, found->job.attempt, std::move(to),
                     fmt::format("changed to {} by {}", wanted, escape_for_terminal(by))},
                    now)) {
    return err(ErrorCode::kResourceExhausted, "{} is not free", wanted);
  }
  return {};
}

Status Queue::member_moved(const Move& move, WallTime now) {
  Entry* const found = active(move.job, move.attempt);
  if (found == nullptr || found->job.state != JobState::kRunning ||
      move.to.rank >= found->job.members.size() || found->job.members[move.to.rank].end) {
    return err(ErrorCode::kFailedPrecondition, "rank {} of job {} does not run", move.to.rank,
               move.job);
  }
  model::Job& job = found->job;
  model::JobMember& member = job.members[move.to.rank];
  const auto spot = fleet_.spot_of(move.to, job.spec);
  // It leaves before it comes, and may use again what it had; the others of its job stay.
  leave_places(*found);
  const model::JobMember before = std::exchange(member, {member.rank, {}, {}, {}});
  take_places(*found);
  const bool free = spot && gpus_of(*spot) == move.to.slices.size() && fleet_.cluster().fits(*spot);
  leave_places(*found);
  member = before;
  if (free) {
    member.node = move.to.node;
    member.slices = move.to.slices;
  }
  take_places(*found);
  if (!free) {
    return err(ErrorCode::kFailedPrecondition, "rank {} of job {} cannot be on {}: it is not free",
               move.to.rank, move.job, fleet_.describe(move.to));
  }
  tree_.give_back(found->queue, found->user, found->held);
  found->held = held_by(job.members);
  tree_.take(found->queue, found->user, found->held);
  job.history.push_back({now, job.state, move.text});
  changed_.insert(move.job);
  return {};
}

}  // namespace divvy::jobs
