// The queue's events: what comes in, and where a job goes that may wait.
#include "jobs/queue.h"

#include <algorithm>

#include "base/check.h"
#include "base/plural.h"
#include "base/text.h"
#include "jobs/retry.h"
#include "model/seconds.h"

namespace divvy::jobs {
namespace {

using model::JobState;
using model::StopReason;

// The place may be free again soon; the fleet is told of it in the meantime. If it is refused again
// and again something else is wrong, and its history should not grow without end.
constexpr model::RetryPolicy kRefused{1'000'000, Seconds(5), Seconds(600)};

tl::unexpected<Error> not_known(model::JobId job) {
  return err(ErrorCode::kNotFound, "there is no job {}, or it has ended", job);
}

bool has_run(const model::Job& job) {
  return std::ranges::find(job.history, JobState::kRunning, &model::JobStep::state) !=
         job.history.end();
}

}  // namespace

Status check_startable(const model::Job& job, std::string_view what) {
  if (job.spec.holder == model::Holder::kMembers) return {};
  return err(
      ErrorCode::kFailedPrecondition,
      "{} {} and cannot be {}, because Divvy could not start it again; `divvy delete {}` ends "
      "it",
      name_of(job),
      job.spec.holder == model::Holder::kProcess ? "is a process of its owner (divvy run)"
                                                 : "is a slice that is held by its name",
      what, job.id);
}

std::string name_of(const model::Job& job) {
  if (job.spec.name.empty()) return fmt::format("job {}", job.id);
  return fmt::format("{} ({})", escape_for_terminal(job.spec.name), job.id);
}

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

// --- What is there ---

// Everything that was taken on the old fleet is taken on the new one.
void Queue::resettle() {
  claims_.clear();
  for (Shape& known : shapes_) known = shape(std::move(known.spec));
  std::vector<model::JobId> ids;
  ids.reserve(jobs_.size());
  for (auto& [id, entry] : jobs_) {
    entry.holdings.clear();
    entry.reservation.reset();
    ids.push_back(id);
  }
  // Whose job it is may matter now where it did not. New shapes are numbered in a fixed order.
  std::ranges::sort(ids);
  for (const model::JobId id : ids) entry(id)->shape = shape_of(entry(id)->job);
  for (const model::JobId id : active_) hold(*entry(id));
  prepare();
}

// The policy learns what kind of requests come.
void Queue::prepare() {
  std::vector<place::Request> requests;
  requests.reserve(shapes_.size());
  for (const Shape& known : shapes_) requests.push_back(known.request);
  fleet_.prepare(requests);
  prepared_for_ = shapes_.size();
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
  line_ = JobLine();
  lengths_.clear();
  std::vector<model::JobId> ids;
  ids.reserve(jobs_.size());
  for (const auto& [id, entry] : jobs_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const model::JobId id : ids) {
    Entry& entry = *this->entry(id);
    entry.queue = tree_.ensure(entry.job.spec.queue);
    entry.user = tree_.user(entry.job.owner);
    if (is_active(entry.job.state)) tree_.take(entry.queue, entry.user, entry.held);
    if (entry.waits == Waits::kInLine) line_.add(entry.queue, entry.user, entry.job, entry.passed);
  }
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
    if (jobs_.contains(jobs[i].id) || (i > 0 && jobs[i].id == jobs[i - 1].id)) {
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
  for (const FinishedJob& job : finished) dependencies_.add(job);
  std::vector<Entry*> entries;
  entries.reserve(jobs.size());
  for (model::Job& job : jobs) entries.push_back(&insert(std::move(job)));
  for (Entry* const entry : entries) {
    if (entry->job.state == JobState::kQueued) enqueue(*entry, now);
    if (!is_active(entry->job.state)) continue;
    hold(*entry);
    if (!entry->job.spec.request.no_gpu()) idle_.begin(entry->job.id, now);
    // What it used since the last row was written.
    const WallTime since = std::max(counted, entry->job.started.value_or(now));
    if (since < now) {
      const double seconds = std::chrono::duration<double>(now - since).count();
      shares_.add(tree_, entry->queue, entry->user,
                  static_cast<double>(entry->held.share) * seconds, now);
    }
    if (entry->job.state == JobState::kStopping) {
      restop(*entry, entry->job.stopping.value_or(StopReason::kCancelled), now, "");
    }
  }
  prepare();
  return {};
}

// --- Events ---

Queue::Entry* Queue::entry(model::JobId job) {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

Queue::Entry* Queue::active(model::JobId job, std::uint32_t attempt) {
  Entry* const found = entry(job);
  if (found == nullptr || !is_active(found->job.state) || found->job.attempt != attempt) {
    return nullptr;
  }
  return found;
}

const model::Job* Queue::find(model::JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second.job;
}

Queue::Entry& Queue::insert(model::Job&& job) {
  const model::JobId id = job.id;
  const auto [found, is_new] = jobs_.try_emplace(id, std::move(job));
  DIVVY_CHECK(is_new, "job {} was submitted twice", id);
  Entry& entry = found->second;
  entry.queue = tree_.ensure(entry.job.spec.queue);
  entry.user = tree_.user(entry.job.owner);
  entry.shape = shape_of(entry.job);
  dependencies_.add(entry.job);
  tally_.know(entry.job.owner);
  return entry;
}

Status Queue::check_priority(QueueId queue, std::int32_t priority) const {
  DIVVY_RETURN_IF_ERROR(model::check_priority(priority));
  const QueueSettings& settings = tree_.settings(queue);
  if (priority <= settings.highest_priority) return {};
  return err(ErrorCode::kPermissionDenied, "priority: {} is above the {} that queue {} allows",
             priority, settings.highest_priority, settings.path);
}

model::JobSpec Queue::with_defaults(model::JobSpec spec) const {
  const auto queue = tree_.find(spec.queue);
  if (queue && !spec.time_limit) spec.time_limit = tree_.time(*queue).usual;
  return spec;
}

Status Queue::check_time_limit(QueueId queue, const model::JobSpec& spec) const {
  const auto most = tree_.time(queue).most;
  if (!most || (spec.time_limit && *spec.time_limit <= *most)) return {};
  return err(ErrorCode::kOutOfRange, "time_limit: {} is more than the {} that {} allows",
             spec.time_limit ? model::seconds_text(*spec.time_limit) : "none",
             model::seconds_text(*most), tree_.whose_most_time(queue));
}

Status Queue::check_waiting(const std::string& owner, std::uint32_t more) const {
  if (settings_.most_waiting == 0 && settings_.most_waiting_of_user == 0) return {};
  std::uint64_t all = more;
  std::uint64_t theirs = more;
  for (const auto& [id, entry] : jobs_) {
    if (model::is_active(entry.job.state) || model::is_finished(entry.job.state)) continue;
    ++all;
    if (entry.job.owner == owner) ++theirs;
  }
  const auto refuse = [more](std::string_view whose, std::uint64_t sum, std::uint32_t most) {
    return err(ErrorCode::kResourceExhausted,
               "{}, and with {} more there would be {}, above the limit of {}; submit again "
               "when some have started, or delete some",
               fmt::format("{}{} {}", counted(sum - more, "job"), whose,
                           sum - more == 1 ? "waits" : "wait"),
               more, sum, most);
  };
  if (settings_.most_waiting_of_user > 0 && theirs > settings_.most_waiting_of_user) {
    return refuse(" of " + owner, theirs, settings_.most_waiting_of_user);
  }
  if (settings_.most_waiting > 0 && all > settings_.most_waiting) {
    return refuse("", all, settings_.most_waiting);
  }
  return {};
}

Status Queue::check_size(const model::JobSpec& spec, const std::string& owner) {
  DIVVY_RETURN_IF_ERROR(model::check(spec));
  const auto queue = tree_.find(spec.queue);
  if (!queue) {
    const auto meant = tree_.similar(spec.queue);
    return err(ErrorCode::kNotFound, "queue: there is no queue {}{}", spec.queue,
               meant ? fmt::format("; did you mean {}?", *meant)
                     : std::string("; an operator has to create it"));
  }
  DIVVY_RETURN_IF_ERROR(check_priority(*queue, spec.priority));
  DIVVY_RETURN_IF_ERROR(check_time_limit(*queue, spec));
  if (const auto small = fleet_.too_small(spec.request)) {
    return err(ErrorCode::kOutOfRange, "request: {}", *small);
  }
  if (const auto fits = place::check(fleet_.request_of(spec)); !fits) {
    return err(with_context(fits.error(), "request"));
  }
  const std::uint64_t members = spec.least();
  const Held least{members * fleet_.least_share(spec.request).thousandths(),
                   members * fleet_.least_memory(spec.request).count(), 1};
  if (const auto obstacle = tree_.limit_below(*queue, tree_.user(owner), least)) {
    return err(ErrorCode::kOutOfRange, "request: {}", *obstacle);
  }
  if (spec.hold_for_capacity) return {};
  place::Request request = fleet_.request_of(spec);
  request.tenant = owner;
  if (const auto never = fleet_.never(request)) {
    return err(ErrorCode::kOutOfRange,
               "request: it can never start: {}; ask for less, or let it wait for such a machine "
               "with --hold-for-capacity (hold_for_capacity: true)",
               *never);
  }
  return {};
}

Status Queue::check(const model::JobSpec& spec, const std::string& owner,
                    std::span<const FinishedJob> finished) {
  DIVVY_RETURN_IF_ERROR(check_size(spec, owner));
  for (std::size_t i = 0; i < spec.after.size(); ++i) {
    const model::JobId id = spec.after[i].job;
    const bool known = dependencies_.knows(id) ||
                       std::ranges::find(finished, id, &FinishedJob::id) != finished.end();
    if (!known) {
      return err(ErrorCode::kNotFound, "after[{}].job: there is no job {} to wait for", i, id);
    }
  }
  // Whoever waits for slices of their own has a connection, and there are not so many of those.
  if (spec.holder != model::Holder::kMembers) return {};
  return check_waiting(owner, spec.array ? spec.array->tasks() : 1);
}

void Queue::submit(model::Job job, WallTime now, std::span<const FinishedJob> finished) {
  for (const FinishedJob& other : finished) dependencies_.add(other);
  Entry& entry = insert(std::move(job));
  changed_.insert(entry.job.id);
  enqueue(entry, now);
}

void Queue::enqueue(Entry& entry, WallTime now) {
  const auto outlook = dependencies_.outlook(entry.job.spec);
  switch (outlook.answer) {
    case Dependencies::Answer::kNever:
      entry.waits = Waits::kInVain;
      hopeless_.insert(entry.job.id);
      return;
    case Dependencies::Answer::kWaits:
      entry.waits = Waits::kForOthers;
      return;
    case Dependencies::Answer::kMet:
      break;
  }
  if (entry.job.not_before && *entry.job.not_before > now) {
    entry.waits = Waits::kLater;
    later_.emplace(*entry.job.not_before, entry.job.id);
    return;
  }
  entry.waits = Waits::kInLine;
  line_.add(entry.queue, entry.user, entry.job, entry.passed);
}

void Queue::dequeue(Entry& entry) {
  switch (entry.waits) {
    case Waits::kInLine:
      line_.remove(entry.queue, entry.user, entry.job, entry.passed);
      break;
    case Waits::kLater:
      later_.erase({*entry.job.not_before, entry.job.id});
      break;
    case Waits::kInVain:
      hopeless_.erase(entry.job.id);
      break;
    case Waits::kForOthers:
    case Waits::kNowhere:
      break;
  }
  entry.waits = Waits::kNowhere;
  entry.reservation.reset();
  entry.head_since.reset();
  entry.passed = false;
  heads_.erase(entry.job.id);
  claims_.erase(entry.job.id);
}

void Queue::become(Entry& entry, JobState state, WallTime now, std::string reason) {
  if (state == JobState::kRunning && !has_run(entry.job)) {
    tally_.waited(entry.job.spec.queue, now - entry.job.submitted);
  }
  if (is_finished(state)) tally_.ended(entry.job.spec.queue, entry.job.owner, state);
  const Status done = entry.job.become(state, now, std::move(reason));
  DIVVY_CHECK(done.has_value(), "{}", done.error().message);
  changed_.insert(entry.job.id);
}

void Queue::finish(Entry& entry, JobState state, WallTime now, std::string reason) {
  become(entry, state, now, std::move(reason));
  follow(entry, now);
}

// Those who waited for it.
void Queue::follow(Entry& entry, WallTime now) {
  for (const model::JobId id : dependencies_.finish(entry.job)) {
    Entry* const waiting = this->entry(id);
    if (waiting == nullptr || waiting->job.state != JobState::kQueued) continue;
    if (waiting->waits != Waits::kForOthers) continue;
    dequeue(*waiting);
    enqueue(*waiting, now);
  }
}

void Queue::withdraw(model::JobId job) {
  Entry* const found = entry(job);
  DIVVY_CHECK(found != nullptr && found->job.state == JobState::kQueued, "job {} does not wait",
              job);
  dequeue(*found);
  jobs_.erase(job);
  changed_.erase(job);
  dependencies_.forget(job);
}

Status Queue::cancel(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = entry(job);
  if (found == nullptr) return not_known(job);
  const std::string text = fmt::format("cancelled by {}", escape_for_terminal(by));
  switch (found->job.state) {
    case JobState::kQueued:
    case JobState::kSuspended:
      dequeue(*found);
      finish(*found, JobState::kCancelled, now, text);
      return {};
    case JobState::kStarting:
    case JobState::kRunning:
      stop(*found, StopReason::kCancelled, now, text);
      return {};
    case JobState::kStopping:
      restop(*found, StopReason::kCancelled, now, text);
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
  Entry* const found = entry(job);
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
      become(*found, JobState::kSuspended, now, text);
      return {};
    case JobState::kStarting:
    case JobState::kRunning:
      stop(*found, StopReason::kSuspended, now, text);
      return {};
    case JobState::kStopping:
      // What would be queued again can be suspended as well; an end stays an end.
      if (found->job.stopping != StopReason::kPreempted &&
          found->job.stopping != StopReason::kReclaimed &&
          found->job.stopping != StopReason::kPlaceLost) {
        return refuse();
      }
      restop(*found, StopReason::kSuspended, now, text);
      return {};
    default:
      return refuse();
  }
}

Status Queue::resume(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = entry(job);
  if (found == nullptr) return not_known(job);
  if (found->job.state != JobState::kSuspended) {
    return err(ErrorCode::kFailedPrecondition, "{} is {}, not suspended", name_of(found->job),
               to_string(found->job.state));
  }
  become(*found, JobState::kQueued, now, fmt::format("resumed by {}", escape_for_terminal(by)));
  enqueue(*found, now);
  return {};
}

Status Queue::set_priority(model::JobId job, std::int32_t priority, const std::string& by,
                           WallTime now) {
  Entry* const found = entry(job);
  if (found == nullptr) return not_known(job);
  model::Job& changed = found->job;
  if (is_finished(changed.state)) {
    return err(ErrorCode::kFailedPrecondition, "{} has ended already: {}", name_of(changed),
               to_string(changed.state));
  }
  DIVVY_RETURN_IF_ERROR(check_priority(found->queue, priority));
  const bool in_line = found->waits == Waits::kInLine;
  if (in_line) line_.remove(found->queue, found->user, changed, found->passed);
  const std::int32_t before = std::exchange(changed.spec.priority, priority);
  if (in_line) line_.add(found->queue, found->user, changed, found->passed);
  // What it holds says how urgent it is.
  leave_places(*found);
  if (is_active(changed.state)) take_places(*found);
  changed.history.push_back(
      {now, changed.state,
       fmt::format("priority {} instead of {}, by {}", priority, before, escape_for_terminal(by))});
  changed_.insert(job);
  return {};
}

void Queue::member_started(model::JobId job, std::uint32_t attempt, std::uint32_t rank,
                           WallTime now) {
  Entry* const found = active(job, attempt);
  if (found == nullptr || found->job.state != JobState::kStarting) return;
  found->started.insert(rank);
  if (found->started.size() < found->job.members.size()) return;
  found->refusals = 0;
  const std::size_t members = found->job.members.size();
  become(*found, JobState::kRunning, now,
         members == 1 ? "started" : fmt::format("all {} members started", members));
  if (!found->job.spec.request.no_gpu()) idle_.begin(job, now);
}

void Queue::member_ended(model::JobId job, std::uint32_t attempt, std::uint32_t rank,
                         model::MemberEnd end, WallTime now) {
  Entry* const found = active(job, attempt);
  if (found == nullptr || rank >= found->job.members.size()) return;
  model::JobMember& member = found->job.members[rank];
  if (member.end) return;
  member.end = std::move(end);
  changed_.insert(job);
  // Who ended had begun, whether that was told or not.
  member_started(job, attempt, rank, now);
  ended(*found, now);
}

void Queue::start_refused(model::JobId job, std::uint32_t attempt, const std::string& why,
                          WallTime now) {
  Entry* const found = active(job, attempt);
  if (found == nullptr) return;
  if (found->job.state == JobState::kStopping) return stopped(*found, now);
  let_go(*found);
  become(*found, JobState::kQueued, now, fmt::format("not started: {}", why));
  found->job.not_before = now + *retry_pause(kRefused, ++found->refusals);
  enqueue(*found, now);
}

void Queue::start_failed(model::JobId job, std::uint32_t attempt, const std::string& why,
                         WallTime now) {
  Entry* const found = active(job, attempt);
  if (found == nullptr) return;
  if (found->job.state == JobState::kStopping) return stopped(*found, now);
  let_go(*found);
  failed(*found, now, fmt::format("could not be started: {}", why));
}

void Queue::used(model::JobId job, WallTime at) { idle_.used(job, at); }

void Queue::forget(model::JobId job) {
  Entry* const found = entry(job);
  if (found == nullptr || !is_finished(found->job.state)) return;
  const auto task = found->job.task;
  const std::vector<model::Dependency> after = std::move(found->job.spec.after);
  jobs_.erase(job);
  changed_.erase(job);
  dependencies_.forget(job);
  if (task) dependencies_.forget(task->array);
  // It may have been the last one that waited for them.
  for (const model::Dependency& dependency : after) {
    if (!jobs_.contains(dependency.job)) dependencies_.forget(dependency.job);
  }
  if (shapes_.size() > std::max(kMostShapes, 2 * jobs_.size())) forget_shapes();
}

// Those of jobs that are known get new numbers, in a fixed order; the others are gone.
void Queue::forget_shapes() {
  shapes_.clear();
  shape_ids_.clear();
  std::vector<model::JobId> ids;
  ids.reserve(jobs_.size());
  for (const auto& [id, entry] : jobs_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const model::JobId id : ids) entry(id)->shape = shape_of(entry(id)->job);
  prepare();
}

std::size_t Queue::entries_kept() const {
  return jobs_.size() + active_.size() + hopeless_.size() + later_.size() + array_active_.size() +
         claims_.size() + heads_.size() + shapes_.size() + shape_ids_.size() + changed_.size() +
         dependencies_.size();
}

std::vector<model::JobId> Queue::take_changes() {
  std::vector<model::JobId> changes(changed_.begin(), changed_.end());
  changed_.clear();
  return changes;
}

}  // namespace divvy::jobs
