#include "jobs/queue.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "jobs/job_check.h"
#include "jobs/load.h"
#include "jobs/pass.h"
#include "jobs/spec_change.h"
#include "jobs/wait_report.h"

namespace divvy::jobs {
namespace {

using model::JobState;
using model::StopReason;

tl::unexpected<Error> not_known(model::JobId job) {
  return err(ErrorCode::kNotFound, "there is no job {}, or it has ended", job);
}

tl::unexpected<Error> not_here(model::JobId job) {
  return err(ErrorCode::kFailedPrecondition, "job {} has ended; submit it again", job);
}

}  // namespace

Queue::Queue(Settings settings)
    : settings_(std::move(settings)),
      tree_(settings_),
      shares_(settings_.half_life),
      fleet_(settings_.policy) {}

Queue::~Queue() = default;

Result<std::unique_ptr<Queue>> Queue::create(Settings settings) {
  DIVVY_RETURN_IF_ERROR(jobs::check(settings));
  return std::unique_ptr<Queue>(new Queue(std::move(settings)));
}

QueueView Queue::view() const {
  return {settings_, tree_, shares_, fleet_, shapes_, book_, holdings_, reservations_, attempts_};
}

// --- What is there ---

void Queue::resettle() {
  reservations_.drop_places();
  shapes_.translate();
  // Whose job it is may matter now where it did not.
  give_shapes();
  holdings_.take_all_places();
  shapes_.prepare();
}

void Queue::give_shapes() {
  book_.for_each([this](Entry& entry) { entry.shape = shapes_.of(entry.job); });
}

Status Queue::set_fleet(const Fleet& fleet) {
  DIVVY_TRY(anew, fleet_.update(fleet));
  if (anew) resettle();
  return {};
}

Status Queue::set_settings(Settings settings) {
  DIVVY_RETURN_IF_ERROR(jobs::check(settings));
  const std::vector<UsageRow> rows = usage();
  const bool other_policy = settings.policy != settings_.policy;
  settings_ = std::move(settings);
  tree_ = QueueTree(settings_);
  shares_ = FairShare(settings_.half_life);
  attempts_.forget_lengths();
  book_.renumber([this](Entry& entry) {
    entry.queue = tree_.ensure(entry.job.spec.queue);
    entry.user = tree_.user(entry.job.owner);
  });
  holdings_.charge_all();
  for (const UsageRow& row : rows) {
    shares_.add(tree_, tree_.ensure(row.queue), tree_.user(row.user), row.share_seconds, row.at);
  }
  if (other_policy) {
    const Fleet fleet = fleet_.fleet();
    fleet_ = FleetView(settings_.policy);
    const auto updated = fleet_.update(fleet);
    DIVVY_CHECK(updated.has_value(), "a fleet that was taken once is refused");
    resettle();
  }
  return {};
}

Status Queue::restore(std::vector<model::Job> jobs, std::span<const UsageRow> usage,
                      std::span<const FinishedJob> finished, WallTime now) {
  std::ranges::sort(jobs, {}, &model::Job::id);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (book_.find(jobs[i].id) != nullptr || (i > 0 && jobs[i].id == jobs[i - 1].id)) {
      return err(ErrorCode::kAlreadyExists, "job {} is there twice", jobs[i].id);
    }
    if (is_finished(jobs[i].state)) {
      return err(ErrorCode::kInvalidArgument, "job {} has ended and cannot be queued", jobs[i].id);
    }
  }
  shares_.advance(tree_, now);
  WallTime counted = WallTime::min();
  for (const UsageRow& row : usage) {
    shares_.add(tree_, tree_.ensure(row.queue), tree_.user(row.user), row.share_seconds, row.at);
    counted = std::max(counted, row.at);
  }
  book_.add_finished(finished);
  std::vector<Entry*> entries;
  entries.reserve(jobs.size());
  for (model::Job& job : jobs) entries.push_back(&insert(std::move(job)));
  for (Entry* const entry : entries) {
    if (entry->job.state == JobState::kQueued) book_.enqueue(*entry, now);
    if (!is_active(entry->job.state)) continue;
    attempts_.restore(*entry, now);
    // What it used since the last row was written.
    const WallTime since = std::max(counted, entry->job.started.value_or(now));
    if (since >= now) continue;
    const double share = static_cast<double>(holdings_.at(entry->job.id).held.share);
    shares_.add(tree_, entry->queue, entry->user,
                share * std::chrono::duration<double>(now - since).count(), now);
  }
  shapes_.prepare();
  return {};
}

// --- What comes in ---

Entry& Queue::insert(model::Job&& job) {
  const QueueId queue = tree_.ensure(job.spec.queue);
  const UserId user = tree_.user(job.owner);
  const ShapeId shape = shapes_.of(job);
  return book_.insert({std::move(job), queue, user, shape});
}

void Queue::dequeue(Entry& entry) {
  book_.dequeue(entry);
  reservations_.drop(entry.job.id);
}

model::JobSpec Queue::with_defaults(model::JobSpec spec) const {
  const auto queue = tree_.find(spec.queue);
  if (queue && !spec.time_limit) spec.time_limit = tree_.time(*queue).usual;
  return spec;
}

Status Queue::check(const model::JobSpec& spec, const std::string& owner,
                    std::span<const FinishedJob> finished) {
  DIVVY_RETURN_IF_ERROR(check_size(tree_, fleet_, spec, owner));
  for (std::size_t i = 0; i < spec.after.size(); ++i) {
    const model::JobId id = spec.after[i].job;
    const bool known = book_.dependencies().knows(id) ||
                       std::ranges::find(finished, id, &FinishedJob::id) != finished.end();
    if (!known) {
      return err(ErrorCode::kNotFound, "after[{}].job: there is no job {} to wait for", i, id);
    }
  }
  // Whoever waits for slices of their own has a connection, and there are not so many of those.
  if (spec.holder != model::Holder::kMembers) return {};
  return check_waiting(settings_, book_, owner, spec.array ? spec.array->tasks() : 1);
}

void Queue::submit(model::Job job, WallTime now, std::span<const FinishedJob> finished) {
  book_.add_finished(finished);
  Entry& entry = insert(std::move(job));
  book_.mark_changed(entry);
  book_.enqueue(entry, now);
}

void Queue::withdraw(model::JobId job) {
  Entry* const found = book_.find(job);
  DIVVY_CHECK(found != nullptr && found->job.state == JobState::kQueued, "job {} does not wait",
              job);
  reservations_.drop(job);
  book_.erase(*found);
}

Status Queue::cancel(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr) return not_known(job);
  const std::string text = fmt::format("cancelled by {}", escape_for_terminal(by));
  switch (found->job.state) {
    case JobState::kQueued:
    case JobState::kSuspended:
      dequeue(*found);
      book_.finish(*found, JobState::kCancelled, now, text);
      return {};
    case JobState::kStarting:
    case JobState::kRunning:
      attempts_.stop(*found, StopReason::kCancelled, now, text);
      return {};
    case JobState::kStopping:
      attempts_.change_stop_reason(*found, StopReason::kCancelled, now, text);
      return {};
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      break;
  }
  return err(ErrorCode::kFailedPrecondition, "{} has ended already: {}", name_of(found->job),
             to_string(found->job.state));
}

Status Queue::suspend(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr) return not_known(job);
  DIVVY_RETURN_IF_ERROR(check_startable(found->job, "suspended"));
  const std::string text = fmt::format("suspended by {}", escape_for_terminal(by));
  const auto refuse = [found] {
    return err(ErrorCode::kFailedPrecondition, "{} is {} and cannot be suspended",
               name_of(found->job), to_string(found->job.state));
  };
  switch (found->job.state) {
    case JobState::kQueued:
      dequeue(*found);
      book_.become(*found, JobState::kSuspended, now, text);
      return {};
    case JobState::kStarting:
    case JobState::kRunning:
      attempts_.stop(*found, StopReason::kSuspended, now, text);
      return {};
    case JobState::kStopping:
      // What would be queued again can be suspended as well; an end stays an end.
      if (found->job.stopping != StopReason::kPreempted &&
          found->job.stopping != StopReason::kReclaimed &&
          found->job.stopping != StopReason::kPlaceLost) {
        return refuse();
      }
      attempts_.change_stop_reason(*found, StopReason::kSuspended, now, text);
      return {};
    default:
      return refuse();
  }
}

Status Queue::resume(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr) return not_known(job);
  if (found->job.state != JobState::kSuspended) {
    return err(ErrorCode::kFailedPrecondition, "{} is {}, not suspended", name_of(found->job),
               to_string(found->job.state));
  }
  book_.become(*found, JobState::kQueued, now,
               fmt::format("resumed by {}", escape_for_terminal(by)));
  book_.enqueue(*found, now);
  return {};
}

Status Queue::set_priority(model::JobId job, std::int32_t priority, const std::string& by,
                           WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr) return not_known(job);
  model::Job& changed = found->job;
  if (is_finished(changed.state)) {
    return err(ErrorCode::kFailedPrecondition, "{} has ended already: {}", name_of(changed),
               to_string(changed.state));
  }
  DIVVY_RETURN_IF_ERROR(check_priority(tree_, found->queue, priority));
  const std::int32_t before = changed.spec.priority;
  book_.change_in_line(*found, [&] { changed.spec.priority = priority; });
  // What it holds says how urgent it is.
  holdings_.take_places_anew(*found);
  book_.note(
      *found, now,
      fmt::format("priority {} instead of {}, by {}", priority, before, escape_for_terminal(by)));
  return {};
}

Status Queue::update(model::JobId job, const Edit& edit, const std::string& by, WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr || is_finished(found->job.state)) return not_here(job);
  model::Job& changed = found->job;
  DIVVY_TRY(spec, edit(changed.spec));
  const bool other_limit = spec.time_limit != changed.spec.time_limit;
  if (other_limit || spec.queue != changed.spec.queue) spec = with_defaults(std::move(spec));
  const std::string place = other_place(spec, changed.spec);
  const std::string rules = other_rules(spec, changed.spec);
  if (place.empty() && rules.empty()) return {};
  const bool waits = changed.state == JobState::kQueued || changed.state == JobState::kSuspended;
  if (!place.empty() && !waits) {
    return err(ErrorCode::kFailedPrecondition,
               "{} is {}: queue, gpu, gpu_memory and members change while it waits; requeue or "
               "suspend it first",
               name_of(changed), to_string(changed.state));
  }
  if (!place.empty()) {
    DIVVY_RETURN_IF_ERROR(check_size(tree_, fleet_, spec, changed.owner));
  } else {
    DIVVY_RETURN_IF_ERROR(check_priority(tree_, found->queue, spec.priority));
    // One that was submitted before the limit was set keeps what it has.
    if (other_limit) DIVVY_RETURN_IF_ERROR(check_time_limit(tree_, found->queue, spec));
  }
  const auto change = [&] {
    changed.spec = std::move(spec);
    if (place.empty()) return;
    found->queue = tree_.ensure(changed.spec.queue);
    found->shape = shapes_.of(changed);
  };
  // Room that others make for it stays its own unless it is to be somewhere else.
  if (!place.empty() && changed.state == JobState::kQueued) {
    dequeue(*found);
    change();
    book_.enqueue(*found, now);
  } else {
    book_.change_in_line(*found, change);
    holdings_.take_places_anew(*found);
  }
  book_.note(*found, now,
             fmt::format("{}{}{}, by {}", place, place.empty() || rules.empty() ? "" : ", ", rules,
                         escape_for_terminal(by)));
  return {};
}

Status Queue::requeue(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr || is_finished(found->job.state)) return not_here(job);
  DIVVY_RETURN_IF_ERROR(check_startable(found->job, "requeued"));
  const std::string text = fmt::format("requeued by {}", escape_for_terminal(by));
  switch (found->job.state) {
    case JobState::kStarting:
    case JobState::kRunning:
      attempts_.stop(*found, StopReason::kPreempted, now, text);
      return {};
    case JobState::kSuspended:
      book_.become(*found, JobState::kQueued, now, text);
      book_.enqueue(*found, now);
      return {};
    default:
      return err(ErrorCode::kFailedPrecondition, "{} is {} and cannot be requeued",
                 name_of(found->job), to_string(found->job.state));
  }
}

void Queue::member_started(model::JobId job, std::uint32_t attempt, std::uint32_t rank,
                           WallTime now) {
  if (Entry* const found = book_.active(job, attempt)) attempts_.member_started(*found, rank, now);
}

void Queue::member_ended(model::JobId job, std::uint32_t attempt, std::uint32_t rank,
                         model::MemberEnd end, WallTime now) {
  if (Entry* const found = book_.active(job, attempt)) {
    attempts_.member_ended(*found, rank, std::move(end), now);
  }
}

void Queue::start_refused(model::JobId job, std::uint32_t attempt, const std::string& why,
                          WallTime now) {
  if (Entry* const found = book_.active(job, attempt)) attempts_.start_refused(*found, why, now);
}

void Queue::start_failed(model::JobId job, std::uint32_t attempt, const std::string& why,
                         WallTime now) {
  if (Entry* const found = book_.active(job, attempt)) attempts_.start_failed(*found, why, now);
}

void Queue::member_left(model::JobId job, std::uint32_t attempt, std::uint32_t rank, WallTime now) {
  Entry* const found = book_.active(job, attempt);
  if (found == nullptr || rank >= found->job.members.size()) return;
  holdings_.drop_member(found->job, rank);
  attempts_.member_ended(*found, rank, {.at = now, .reason = "it let go"}, now);
}

std::vector<std::uint32_t> Queue::join(model::JobId job, model::JobId other, WallTime now) {
  Entry* const into = book_.find(job);
  Entry* const from = book_.find(other);
  const auto runs = [](const Entry* entry) {
    return entry != nullptr && entry->job.state == JobState::kRunning &&
           entry->job.spec.holder == model::Holder::kPods;
  };
  DIVVY_CHECK(runs(into) && runs(from) && job != other, "jobs {} and {} cannot be one", job, other);
  std::vector<model::JobMember> members = from->job.members;
  attempts_.dissolve(*from, now);
  forget(other);
  std::vector<std::uint32_t> ranks;
  for (model::JobMember& member : members) {
    // The rank of one that has left is free.
    std::vector<model::JobMember>& all = into->job.members;
    const auto gone =
        std::ranges::find_if(all, [](const auto& one) { return one.end.has_value(); });
    const auto rank = static_cast<std::uint32_t>(gone - all.begin());
    if (gone == all.end()) all.emplace_back();
    member.rank = rank;
    holdings_.add_member(into->job, std::move(member));
    ranks.push_back(rank);
  }
  book_.mark_changed(*into);
  return ranks;
}

Status Queue::member_moved(const Move& move, WallTime now) {
  Entry* const found = book_.active(move.job, move.attempt);
  if (found == nullptr || found->job.state != JobState::kRunning ||
      move.to.rank >= found->job.members.size() || found->job.members[move.to.rank].end) {
    return err(ErrorCode::kFailedPrecondition, "rank {} of job {} does not run", move.to.rank,
               move.job);
  }
  if (!holdings_.move(found->job, move.to)) {
    return err(ErrorCode::kFailedPrecondition, "rank {} of job {} cannot be on {}: it is not free",
               move.to.rank, move.job, fleet_.describe(move.to));
  }
  book_.note(*found, now, move.text);
  return {};
}

Status Queue::resize(model::JobId job, std::vector<model::Slice> slices, const std::string& by,
                     WallTime now) {
  Entry* const found = book_.find(job);
  if (found == nullptr || found->job.state != JobState::kRunning ||
      found->job.spec.holder == model::Holder::kMembers) {
    return err(ErrorCode::kFailedPrecondition, "job {} holds no slices that can change", job);
  }
  const Held& before = holdings_.at(job).held;
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

void Queue::give_place(model::JobId job, std::span<const model::JobMember> place) {
  const Entry* const found = book_.find(job);
  if (found == nullptr || found->waits != Waits::kInLine) return;
  if (place.size() < found->job.spec.least() || place.size() > found->job.spec.members()) return;
  Claim claim;
  claim.spots.reserve(place.size());
  for (const model::JobMember& member : place) {
    const auto spot = fleet_.spot_of(member, found->job.spec);
    if (!spot) return;
    claim.spots.push_back(*spot);
  }
  reservations_.put(job, std::move(claim));
}

void Queue::used(model::JobId job, WallTime at) { attempts_.used(job, at); }

void Queue::forget(model::JobId job) {
  if (!book_.forget(job) || !shapes_.too_many_for(book_.entries().size())) return;
  // Those of jobs that are known get new numbers; the others are gone.
  shapes_.clear();
  give_shapes();
  shapes_.prepare();
}

// --- Decisions ---

std::vector<Decision> Queue::pass(WallTime now) {
  shares_.advance(tree_, now);
  book_.end_pauses(now);
  attempts_.cancel_hopeless(now);
  attempts_.stop_overdue(now);
  if (waiting() != 0) {
    shapes_.prepare_for_new();
    const QueueView seen = view();
    Pass(seen, fleet_, book_, reservations_, attempts_, now).run();
  }
  return attempts_.take_decisions();
}

std::optional<WallTime> Queue::next_pass(WallTime now) const {
  std::optional<WallTime> next = attempts_.next_due(waiting() != 0, now);
  const auto pause = book_.next_pause_end();
  if (pause && (!next || *pause < *next)) next = pause;
  if (next && *next < now) next = now;
  return next;
}

std::vector<model::JobId> Queue::take_changes() { return book_.take_changes(); }

// --- Questions ---

const model::Job* Queue::find(model::JobId job) const {
  const Entry* const found = book_.find(job);
  return found == nullptr ? nullptr : &found->job;
}

Snapshot Queue::snapshot(std::size_t most_waiting) const {
  return snapshot_of(view(), most_waiting);
}

WaitReport Queue::explain(model::JobId job, WallTime now) const {
  return report_wait(view(), job, now, true);
}

WaitReport Queue::why_it_waits(model::JobId job, WallTime now) const {
  return report_wait(view(), job, now, false);
}

Result<std::optional<MovePlan>> Queue::plan_moves(model::JobId job, std::size_t most, WallTime now,
                                                  const MayMove& may_move) const {
  return jobs::plan_moves(view(), job, most, may_move, now);
}

Growth Queue::plan_growth(std::span<const NodeKind> kinds, GrowthLimits limits) const {
  return jobs::plan_growth(view(), kinds, limits);
}

FreeRoom Queue::free_room() const { return jobs::free_room(fleet_.cluster()); }

const place::Reservation* Queue::reservation(model::JobId job, WallTime now) const {
  return reservations_.kept(job, now);
}

std::vector<model::JobId> Queue::order() const { return view().order(); }

std::optional<Seconds> Queue::idle_left(model::JobId job, WallTime now) const {
  const Entry* const found = book_.find(job);
  return found == nullptr ? std::nullopt : attempts_.idle_left(*found, now);
}

std::vector<QueueReport> Queue::queues() const { return queue_reports(view()); }

std::vector<UserReport> Queue::users() const { return user_reports(tree_); }

Load Queue::load(WallTime now) const { return load_of(view(), now); }

std::size_t Queue::entries_kept() const {
  return book_.entries_kept() + holdings_.entries_kept() + reservations_.entries_kept() +
         shapes_.entries();
}

}  // namespace divvy::jobs
