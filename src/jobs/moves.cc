#include "jobs/moves.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "base/text.h"
#include "place/defrag.h"

namespace divvy::jobs {
namespace {

using model::JobState;

bool is_movable(const QueueView& view, const Holding& holding, WallTime now) {
  const model::Job& job = holding.job();
  if (job.state != JobState::kRunning || !job.spec.may_make_way()) return false;
  if (view.holdings.rests(holding) || now - *job.started < job.spec.minimum_run) return false;
  // One that has ended holds its place until the others of its gang have, and cannot be moved.
  return std::ranges::none_of(job.members, [](const auto& member) { return !!member.end; });
}

// The member that is there, if it has not been moved yet: members of one job may be on equal spots.
std::optional<Move> move_of(const QueueView& view, const model::Job& job, const place::Spot& from,
                            const place::Spot& to, std::set<std::uint32_t>& moved) {
  for (const model::JobMember& member : job.members) {
    if (moved.contains(member.rank) || view.fleet.spot_of(member, job.spec) != from) continue;
    moved.insert(member.rank);
    Move move{job.id, job.attempt, view.fleet.members_at({&to, 1}, job.spec).front(), {}};
    move.to.rank = member.rank;
    move.text = fmt::format("rank {} moves to {}", member.rank, view.fleet.describe(move.to));
    return move;
  }
  return std::nullopt;
}

// A part of a larger GPU has more memory, which counts.
bool within_limits(const QueueView& view, std::span<const Move> moves) {
  std::map<model::JobId, Held> more;
  for (const Move& move : moves) {
    const model::JobMember& before = view.book.at(move.job).job.members[move.to.rank];
    const Held now = held_by({&before, 1});
    const Held then = held_by({&move.to, 1});
    if (then.memory > now.memory) more[move.job].memory += then.memory - now.memory;
  }
  return std::ranges::all_of(more, [&view](const auto& item) {
    const Entry& entry = view.book.at(item.first);
    return !view.tree.obstacle(entry.queue, entry.user, item.second);
  });
}

}  // namespace

FreeRoom free_room(const place::Cluster& cluster) {
  FreeRoom room;
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const place::NodeState& state = cluster.state(place::NodeId(i));
    if (!state.open) continue;
    const auto whole = static_cast<std::uint32_t>(std::popcount(state.whole));
    room.share += state.idle;
    room.stranded += state.idle - whole * Share::kWhole;
    room.largest_gpus = std::max(room.largest_gpus, whole);
    room.largest_part = std::max(room.largest_part, std::uint32_t{state.most_free});
  }
  return room;
}

Result<std::optional<MovePlan>> plan_moves(const QueueView& view, model::JobId job,
                                           std::size_t most, const MayMove& may_move,
                                           WallTime now) {
  const Entry* const found = view.book.find(job);
  if (found == nullptr || found->waits != Waits::kInLine) {
    return err(ErrorCode::kFailedPrecondition, "job {} does not wait for a place", job);
  }
  std::optional<MovePlan> none;
  place::Request request = view.request_for(*found);
  request.members = view.members_allowed(*found, view.tree_after_claims());
  if (request.members == 0) return none;
  // On a copy: policies learn from what they are asked, and a question decides nothing.
  place::Cluster cluster = view.fleet.cluster();
  DIVVY_TRY(policy, place::make_policy(view.settings.policy));
  place::Placer placer(cluster, std::move(policy));
  // Places that others are making for somebody are not to be filled by those who move.
  for (const auto& [id, claim] : view.reservations.claims()) place::hold(cluster, claim.spots);
  for (const model::JobId other : view.order()) {
    if (other == job) break;
    const auto* const kept = view.reservations.kept(other, now);
    if (kept != nullptr) place::hold(cluster, kept->spots);
  }
  std::map<std::uint64_t, place::Request> movable;
  for (const auto& [id, other] : view.holdings.jobs()) {
    if (!is_movable(view, other, now) || (may_move && !may_move(id))) continue;
    movable.emplace(id.value(), view.request_for(*other.entry));
    for (const place::HoldingId place : other.places) {
      const place::Holding held = cluster.holding(place);
      cluster.release(place);
      cluster.take(held.spot, held.job, held.priority, true);
    }
  }
  const auto request_of = [&](place::HoldingId id) -> const place::Request* {
    const auto known = movable.find(cluster.holding(id).job);
    return known == movable.end() ? nullptr : &known->second;
  };
  const auto plan = place::plan_defrag(placer, request, request_of, {.moves = most});
  if (!plan) return none;
  std::map<model::JobId, std::set<std::uint32_t>> moved;
  MovePlan planned;
  planned.place = view.fleet.members_at(plan->spots, found->job.spec);
  planned.before = free_room(cluster);
  for (const place::Move& step : plan->moves) {
    const model::JobId mover(cluster.holding(step.holding).job);
    auto move = move_of(view, view.book.at(mover).job, step.from, step.to, moved[mover]);
    if (!move) return none;
    planned.moves.push_back(*std::move(move));
  }
  if (!within_limits(view, planned.moves)) return none;
  for (const place::Move& step : plan->moves) {
    cluster.release(step.holding);
    cluster.take(step.to);
  }
  planned.after = free_room(cluster);
  return std::optional(std::move(planned));
}

}  // namespace divvy::jobs
