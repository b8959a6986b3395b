// Who starts: one pass through the line.
//
// The jobs are tried in the order of their turn. One that its queue or user may not hold is passed
// over. One that fits starts. The first few that do not fit get a reservation, and from then on a
// job starts only if that delays none of them (backfill). Where nobody knows when the reserved one
// starts, others may pass it for a while (Settings::passing) rather than leave GPUs idle. A request
// that did not fit is not tried again in the same pass: a pass only ever takes, so it would not fit
// later either.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "jobs/queue.h"

namespace divvy::jobs {
namespace {

using model::JobState;

// Reservations of this pass are of jobs that came before, so nobody who comes later may touch them,
// whatever its priority.
constexpr std::int32_t kAboveAll = std::numeric_limits<std::int32_t>::max();
// Each looks at many sets of victims, and what it frees has to be there before the next.
constexpr std::uint32_t kRooms = 4;

place::Instant seconds(WallTime time) {
  return std::chrono::ceil<Seconds>(time).time_since_epoch().count();
}

// How long it may take at most, as far as that is known.
std::optional<Seconds> expected(const model::JobSpec& spec) {
  return spec.expected ? spec.expected : spec.time_limit;
}

model::GpuMode mode_of(const model::JobSpec& spec) {
  return spec.mode.value_or(model::GpuMode::kTimeslice);
}

place::Instant duration(const model::JobSpec& spec) {
  const auto known = expected(spec);
  return known ? known->count() : place::kNever;
}

}  // namespace

std::vector<Decision> Queue::pass(WallTime now) {
  shares_.advance(tree_, now);
  while (!later_.empty() && later_.begin()->first <= now) {
    Entry& entry = *this->entry(later_.begin()->second);
    dequeue(entry);
    enqueue(entry, now);
  }
  cancel_hopeless(now);
  end_overdue(now);
  schedule(now);
  // A job may have come to its end after it was told to stop and before anybody asked.
  std::erase_if(decisions_, [this](const Decision& decision) {
    const Stop* const stop = std::get_if<Stop>(&decision);
    if (stop == nullptr) return false;
    const Entry* const entry = active(stop->job, stop->attempt);
    return entry == nullptr || entry->job.state != JobState::kStopping;
  });
  return std::exchange(decisions_, {});
}

std::optional<WallTime> Queue::next_pass(WallTime now) const {
  std::optional<WallTime> next;
  const auto at = [&next](WallTime time) { next = next ? std::min(*next, time) : time; };
  if (!later_.empty()) at(later_.begin()->first);
  for (const model::JobId id : active_) {
    const Entry& entry = jobs_.at(id);
    if (entry.job.state != JobState::kRunning) continue;
    const model::JobSpec& spec = entry.job.spec;
    if (spec.time_limit) at(*entry.job.started + *spec.time_limit);
    if (const auto idle = idle_.next(id, tree_.idle(entry.queue))) at(*idle);
    // From then on it may have to make way for somebody.
    const WallTime settled = *entry.job.started + spec.minimum_run;
    if (line_.size() != 0 && settled > now) at(settled);
  }
  if (next && *next < now) next = now;
  return next;
}

void Queue::schedule(WallTime now) {
  if (line_.size() == 0) return;
  // More rarely the more is known.
  if (shapes_.size() >= 2 * prepared_for_ + 4) prepare();
  move_up_passed(now);
  Round round;
  round.now = now;
  round.outlook = outlook(now);
  round.tries = settings_.tries;
  round.rooms = kRooms;
  start_claims(round);
  round.ahead = booked_ahead();
  Turn turn(line_, tree_, shares_);
  while (round.tries != 0) {
    const auto id = turn.next();
    if (!id) break;
    if (claims_.contains(*id)) continue;
    if (try_start(*entry(*id), round)) turn.started();
  }
}

place::Outlook Queue::outlook(WallTime now) const {
  place::Outlook outlook;
  outlook.now = seconds(now);
  for (const model::JobId id : active_) {
    const Entry& entry = jobs_.at(id);
    std::optional<WallTime> end = entry.stop_by;
    if (!end) {
      const WallTime started = entry.job.started.value_or(now);
      const auto known = expected(entry.job.spec);
      if (known) end = started + *known;
      // A guess that has come out wrong says nothing any more.
      if (end && *end <= now && entry.job.spec.expected) {
        end.reset();
        if (entry.job.spec.time_limit) end = started + *entry.job.spec.time_limit;
      }
    }
    if (!end) continue;
    for (const place::HoldingId holding : entry.holdings) {
      outlook.endings.push_back({holding, seconds(*end)});
    }
  }
  return outlook;
}

// The place that others make. They may be gone long before their grace is over, or stay longer, and
// whoever were there in the meantime would have to make way, too.
place::Reservation Queue::kept_for(model::JobId job, const Claim& claim, WallTime now) const {
  place::Instant gone = seconds(now) + 1;
  for (const model::JobId victim : claim.victims) {
    const auto other = jobs_.find(victim);
    if (other == jobs_.end() || !other->second.stop_by) continue;
    gone = std::max(gone, seconds(*other->second.stop_by));
  }
  return {name_of(jobs_.at(job).job), kAboveAll, gone, claim.spots, true};
}

// Those for whom others made way come first: the place was made for them.
void Queue::start_claims(Round& round) {
  std::vector<model::JobId> over;
  for (const auto& [id, claim] : claims_) {
    Entry& entry = *this->entry(id);
    place::Reservation place = kept_for(id, claim, round.now);
    const bool waits = std::ranges::any_of(claim.victims, [this](model::JobId victim) {
      const Entry* const other = this->entry(victim);
      return other != nullptr && other->job.state == JobState::kStopping;
    });
    const bool allowed = !array_is_full(entry) &&
                         !tree_.obstacle(entry.queue, entry.user, held_at(entry, claim.spots));
    if (allowed && place::ready(fleet_.cluster(), place)) {
      over.push_back(id);
    } else if (waits) {
      round.outlook.reservations.push_back(std::move(place));
    } else {
      // Something else came in between; it waits like everybody.
      over.push_back(id);
    }
  }
  for (const model::JobId id : over) {
    const Claim claim = std::move(claims_.extract(id).mapped());
    Entry& entry = *this->entry(id);
    const place::Reservation place{"", 0, place::kNever, claim.spots};
    if (!place::ready(fleet_.cluster(), place) || array_is_full(entry) ||
        tree_.obstacle(entry.queue, entry.user, held_at(entry, claim.spots))) {
      continue;
    }
    start(entry, claim.spots, round.now);
  }
}

bool Queue::array_is_full(const Entry& entry) const {
  if (!entry.job.task || entry.job.task->at_once == 0) return false;
  const auto running = array_active_.find(entry.job.task->array);
  return running != array_active_.end() && running->second >= entry.job.task->at_once;
}

// At least: how much memory its GPUs have is known only when they are chosen.
Held Queue::held_of(const Entry& entry, std::uint32_t members) const {
  const Shape& shape = shapes_[entry.shape];
  return {shape.share * members, shape.memory * members, 1};
}

Held Queue::held_at(const Entry& entry, std::span<const place::Spot> spots) const {
  const std::optional<Bytes> limit = entry.job.spec.request.memory();
  Held held{0, 0, 1};
  for (const place::Spot& spot : spots) {
    held.share += spot.share();
    held.memory += spot.part_memory;
    const auto& gpus = fleet_.fleet().nodes[spot.node.value()].gpus;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if ((spot.whole >> i & 1) != 0) held.memory += limit.value_or(gpus[i].device.memory).count();
    }
  }
  return held;
}

// What is held when those who make way are gone and those for whom they do have started; nothing
// where nobody does. Limits are kept for them like places: what one of several leaves is not for
// somebody else until the last is gone.
std::optional<QueueTree> Queue::booked_ahead() const {
  if (claims_.empty()) return std::nullopt;
  QueueTree tree = tree_;
  std::set<model::JobId> gone;
  for (const auto& [id, claim] : claims_) {
    const Entry& entry = jobs_.at(id);
    tree.take(entry.queue, entry.user, held_at(entry, claim.spots));
    for (const model::JobId victim : claim.victims) {
      const auto other = jobs_.find(victim);
      if (other == jobs_.end() || other->second.job.state != JobState::kStopping) continue;
      if (!gone.insert(victim).second) continue;
      tree.give_back(other->second.queue, other->second.user, other->second.held);
    }
  }
  return tree;
}

// As many members as the limits leave to it, and none if that is fewer than it needs.
std::uint32_t Queue::members_allowed(const Entry& entry,
                                     const std::optional<QueueTree>& ahead) const {
  const auto allowed = [&](std::uint32_t members) {
    const Held held = held_of(entry, members);
    return !tree_.obstacle(entry.queue, entry.user, held) &&
           !(ahead && ahead->obstacle(entry.queue, entry.user, held));
  };
  std::uint32_t low = entry.job.spec.least();
  std::uint32_t high = entry.job.spec.members();
  if (!allowed(low)) return 0;
  if (allowed(high)) return high;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (allowed(middle) ? low : high) = middle;
  }
  return low;
}

Queue::ShapeId Queue::shape_of(const model::Job& job) {
  const model::JobSpec& spec = job.spec;
  const model::Request& request = spec.request;
  std::string key =
      fmt::format("{}/{}/{}/{}/{}/{}/{}/{}", request.share(), request.memory().value_or(Bytes(0)),
                  request.gang_size(), spec.least(), static_cast<int>(request.topology()),
                  static_cast<int>(request.kind()), spec.limits.cpu_milli.value_or(0),
                  spec.limits.ram.value_or(Bytes(0)));
  const model::Where& where = spec.where;
  for (const model::Near& near : {where.gpus_near, where.members_near}) {
    key += fmt::format("/{}{}", to_string(near.closeness), near.required ? "!" : "");
  }
  if (where.spread)
    key += fmt::format("/{}{}", to_string(where.spread->domain), where.spread->most);
  // Each name with its length, so that no two lists look the same.
  const auto add = [&key](const std::vector<std::string>& names) {
    key += fmt::format("|{}", names.size());
    for (const std::string& name : names) key += fmt::format("/{}:{}", name.size(), name);
  };
  add(request.allowed_models());
  add(request.denied_models());
  add(spec.devices);
  add(where.nodes);
  add(where.nodes_denied);
  add(where.tolerations);
  for (const auto& [name, value] : where.node_labels) add({name, value});
  if (spec.mode) add({std::string(to_string(*spec.mode))});
  if (fleet_.excludes(job.owner)) add({job.owner});
  const auto [found, is_new] =
      shape_ids_.try_emplace(std::move(key), static_cast<ShapeId>(shapes_.size()));
  if (is_new) {
    model::JobSpec same(request);
    same.least_members = spec.least_members;
    same.limits.cpu_milli = spec.limits.cpu_milli;
    same.limits.ram = spec.limits.ram;
    same.devices = spec.devices;
    same.where = spec.where;
    same.mode = spec.mode;
    shapes_.push_back(shape(std::move(same)));
  }
  return found->second;
}

Queue::Shape Queue::shape(model::JobSpec spec) const {
  place::Request request = fleet_.request_of(spec);
  const std::uint64_t share = fleet_.least_share(spec.request).thousandths();
  const std::uint64_t memory = fleet_.least_memory(spec.request).count();
  return {std::move(spec), std::move(request), share, memory};
}

place::Request Queue::request_for(const Entry& entry) const {
  place::Request request = shapes_[entry.shape].request;
  request.name = name_of(entry.job);
  request.tenant = entry.job.owner;
  request.priority = entry.job.spec.priority;
  request.preemptible = entry.job.spec.preemptible;
  keep_to_mode(entry, request);
  return request;
}

void Queue::keep_to_mode(const Entry& entry, place::Request& request) const {
  const model::GpuMode mode = mode_of(entry.job.spec);
  if (mode == model::GpuMode::kTimeslice && active_mps_ == 0) return;
  std::set<std::string> others;
  for (const model::JobId id : active_) {
    const Entry& other = jobs_.at(id);
    if (mode_of(other.job.spec) == mode) continue;
    for (const model::JobMember& member : other.job.members) {
      for (const model::Slice& slice : member.slices) others.insert(slice.gpu().str());
    }
  }
  if (others.empty()) return;
  if (request.devices.empty()) {
    for (const FleetNode& node : fleet_.fleet().nodes) {
      for (const FleetGpu& gpu : node.gpus) request.devices.push_back(gpu.uuid.str());
    }
  }
  std::erase_if(request.devices, [&](const std::string& uuid) { return others.contains(uuid); });
  // None must not turn into any.
  if (request.devices.empty()) request.devices = {fmt::format("a GPU in mode {}", to_string(mode))};
}

bool Queue::try_start(Entry& entry, Round& round) {
  const auto before = std::exchange(entry.reservation, std::nullopt);
  if (array_is_full(entry)) return false;
  const model::JobSpec& spec = entry.job.spec;
  const auto may_evict = [&](std::optional<UserId> user) {
    return settings_.preemption &&
           !round.find_no_room.contains({entry.shape, entry.queue, spec.priority, user});
  };
  // Most of a long line is known by this look alone.
  if (spec.least() == spec.members() && !may_evict(std::nullopt) &&
      round.do_not_fit.contains(std::tuple(entry.shape, spec.members(), duration(spec)))) {
    return false;
  }
  const std::uint32_t members = members_allowed(entry, round.ahead);
  const std::tuple tried(entry.shape, members, duration(spec));
  const bool known = members != 0 && round.do_not_fit.contains(tried);
  // Who has to make way for its limits depends on the user, too.
  const auto user = members == 0 ? std::optional(entry.user) : std::nullopt;
  if ((known || members == 0) && !may_evict(user)) return false;
  place::Request request = request_for(entry);
  if (members != 0 && !known) {
    request.members = members;
    std::vector<place::Spot> spots;
    if (round.outlook.reservations.empty()) {
      spots = fleet_.placer().plan(request);
    } else {
      const auto length = duration(spec);
      spots = place::may_backfill(fleet_.placer(), round.outlook, request,
                                  length == place::kNever ? std::nullopt : std::optional(length))
                  .spots;
    }
    if (!spots.empty()) {
      // Only now it is known how much memory its GPUs have; an elastic job can do with fewer.
      const auto too_much = [&](const QueueTree& tree) {
        return tree.obstacle(entry.queue, entry.user, held_at(entry, spots)).has_value();
      };
      while (too_much(tree_) || (round.ahead && too_much(*round.ahead))) {
        if (spots.size() == spec.least()) return false;
        spots.pop_back();
      }
      start(entry, spots, round.now);
      if (round.ahead) round.ahead->take(entry.queue, entry.user, entry.held);
      for (const place::HoldingId holding : entry.holdings) {
        const auto length = duration(spec);
        if (length != place::kNever) {
          round.outlook.endings.push_back({holding, round.outlook.now + length});
        }
      }
      return true;
    }
    round.do_not_fit.insert(tried);
    --round.tries;
  }
  if (may_evict(user)) {
    make_room(entry, request, round);
    if (claims_.contains(entry.job.id)) return false;
    round.find_no_room.insert({entry.shape, entry.queue, spec.priority, user});
  }
  if (members != 0 && !known) reserve_for(entry, request, round, before);
  return false;
}

void Queue::reserve_for(Entry& entry, const place::Request& request, Round& round,
                        const std::optional<place::Reservation>& before) {
  if (round.reserved >= settings_.reservations) return;
  auto reservation = place::reserve(fleet_.placer(), round.outlook, request);
  if (!reservation) return;
  // One that waits for nobody knows when keeps its place, as long as that can become free:
  // otherwise it would run after every GPU that somebody leaves.
  const bool keep = reservation->start == place::kNever && before &&
                    before->start == place::kNever && round.outlook.reservations.empty() &&
                    place::still_possible(fleet_.cluster(), *before);
  entry.reservation = keep ? *before : *std::move(reservation);
  entry.reservation->priority = kAboveAll;
  heads_.insert(entry.job.id);
  if (entry.reservation->start == place::kNever && !entry.head_since) entry.head_since = round.now;
  if (is_kept(entry, round.now)) round.outlook.reservations.push_back(*entry.reservation);
  ++round.reserved;
}

// A user who has used less would stand before it, and the next one after that, without end. Those
// who are older stay before it.
void Queue::move_up_passed(WallTime now) {
  const auto age = [](const Entry& entry) { return std::pair(entry.job.submitted, entry.job.id); };
  for (const model::JobId id : heads_) {
    Entry& head = *entry(id);
    const bool waits = head.waits == Waits::kInLine && head.reservation &&
                       head.reservation->start == place::kNever;
    if (head.passed || !waits || now - *head.head_since < settings_.passing) continue;
    const bool is_oldest = std::ranges::none_of(heads_, [&](model::JobId other_id) {
      const Entry& other = *entry(other_id);
      return other.queue == head.queue && other.job.spec.priority == head.job.spec.priority &&
             other.job.spec.job_class == head.job.spec.job_class && !other.passed &&
             other.reservation && age(other) < age(head);
    });
    if (!is_oldest) continue;
    line_.remove(head.queue, head.user, head.job);
    head.passed = true;
    line_.add(head.queue, head.user, head.job, head.passed);
  }
}

bool Queue::is_kept(const Entry& entry, WallTime now) const {
  if (!entry.reservation) return false;
  return entry.reservation->start != place::kNever ||
         (entry.head_since && now - *entry.head_since >= settings_.passing);
}

void Queue::start(Entry& entry, std::span<const place::Spot> spots, WallTime now) {
  dequeue(entry);
  model::Job& job = entry.job;
  // Members of one node have ranks that follow each other, as launchers expect it.
  std::vector<std::size_t> ranks(spots.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::sort(ranks, {}, [&](std::size_t i) { return std::pair(spots[i].node, i); });
  std::vector<place::Spot> sorted;
  sorted.reserve(spots.size());
  for (const std::size_t i : ranks) sorted.push_back(spots[i]);
  job.members = fleet_.members_at(sorted, job.spec);
  job.attempt += 1;
  job.not_before.reset();
  std::string text = fmt::format("placed on {}", fleet_.describe(job.members.front()));
  if (job.members.size() > 1) {
    text = fmt::format("{} members placed, the first on {}", job.members.size(),
                       fleet_.describe(job.members.front()));
  }
  become(entry, JobState::kStarting, now, text);
  hold(entry);
  decisions_.emplace_back(Start{job.id, job.attempt, job.members, std::move(text)});
}

}  // namespace divvy::jobs
