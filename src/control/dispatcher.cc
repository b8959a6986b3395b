#include "control/dispatcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "agent/waiting.h"
#include "base/log.h"
#include "control/notification.h"
#include "control/user_names.h"
#include "jobs/array.h"
#include "model/name.h"
#include "store/event_table.h"
#include "store/job_table.h"
#include "store/notification_table.h"

namespace divvy::control {
namespace {

using namespace std::chrono_literals;

// How often the machine is looked at while somebody waits for a place or holds one.
constexpr int kLookMs = 1000;
// So many times the length of a pass are for everybody else.
constexpr int kRest = 4;
// So long a question waits for the disk, and a submit for a machine that is asked whether it could
// run there.
constexpr auto kDiskPatience = 2s;
constexpr auto kMachinePatience = 5s;
// Of a machine that tells more while the disk takes none.
constexpr std::size_t kMostUntoldEvents = 1000;

store::EventRow event_of(const model::Job& job, const model::JobStep& step) {
  store::EventRow event;
  event.at = step.at;
  event.kind = "job";
  event.job = job.id;
  event.user = job.owner;
  event.object = job.spec.name;
  event.state = to_string(step.state);
  event.reason = step.reason;
  return event;
}

// Ended jobs that this one waits for: the queue has forgotten them.
Result<std::vector<jobs::FinishedJob>> finished_before(store::Connection& connection,
                                                       const model::JobSpec& spec) {
  std::vector<jobs::FinishedJob> finished;
  for (const model::Dependency& dependency : spec.after) {
    DIVVY_TRY(job, store::JobTable(connection).find(dependency.job));
    if (!job || !model::is_finished(job->state)) continue;
    finished.push_back(
        {job->id, job->task ? std::optional(job->task->array) : std::nullopt, job->state});
  }
  return finished;
}

}  // namespace

std::string Dispatcher::job_name(const std::vector<std::string>& command) {
  const std::string program =
      command.empty() ? std::string() : std::filesystem::path(command[0]).stem().string();
  std::string name;
  for (const char c : program.substr(0, 40)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return model::check_name("job", name) ? name : "job";
}

model::GpuMode Dispatcher::mode_for(const model::JobSpec& spec) const {
  return spec.request.gpus_per_member() == 1 ? default_mode_.load() : model::GpuMode::kTimeslice;
}

Dispatcher::Dispatcher(Parts parts)
    : parts_(std::move(parts)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      counted_(parts_.clock.wall_now()),
      replies_(std::make_shared<ReplyBox>(mutex_, [this] { wake(); })),
      aside_(std::make_unique<agent::Workers>(std::array{2U, 0U, 0U, 0U})) {}

Result<std::unique_ptr<Dispatcher>> Dispatcher::create(Parts parts) {
  std::unique_ptr<Dispatcher> made(new Dispatcher(std::move(parts)));
  if (!made->bell_) return err(ErrorCode::kIo, "no event descriptor for the queue");
  DIVVY_TRY(queue, jobs::Queue::create(made->parts_.settings));
  made->queue_ = std::move(queue);
  for (agent::Agent* const agent : made->parts_.agents.all()) {
    made->machines_.push_back({.node = agent->node(), .counted = made->counted_});
    agent->listen([dispatcher = made.get(), node = agent->node()](agent::News news) {
      dispatcher->hear(node, std::move(news));
    });
  }
  DIVVY_RETURN_IF_ERROR(made->recover());
  if (made->parts_.drive == Drive::kThread) {
    made->thread_ = std::thread([dispatcher = made.get()] { dispatcher->run(); });
  }
  return made;
}

Dispatcher::~Dispatcher() {
  for (agent::Agent* const agent : parts_.agents.all()) agent->listen({});
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  written_.notify_all();
  replies_->close();
  aside_.reset();
}

void Dispatcher::wake() {
  const std::uint64_t one = 1;
  // Full means that it is about to look anyway.
  if (::write(bell_.get(), &one, sizeof one) < 0) return;
}

void Dispatcher::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    step();
    pollfd waits[] = {{bell_.get(), POLLIN, 0}};
    poll(waits, 1, patience_ms());
    std::uint64_t rung = 0;
    if (read(bell_.get(), &rung, sizeof rung) < 0) continue;
  }
}

int Dispatcher::patience_ms() {
  const std::lock_guard lock(mutex_);
  if (pass_due_) {
    const auto left = rested_ - std::chrono::steady_clock::now();
    return static_cast<int>(
        std::max<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0));
  }
  if (!unwritten_.empty() || !ended_.empty() || !untold_.empty() || !deferred_.empty() ||
      !strays_.empty() || !doubtful_.empty() || !untold_events_.empty()) {
    return kLookMs;
  }
  const WallTime now = parts_.clock.wall_now();
  const auto next = queue_->next_pass(now);
  const auto until = next ? std::max<Duration>(*next - now, Duration(0)) : Duration(1h);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until).count();
  const bool busy = !books_.empty() || queue_->waiting() > 0;
  return static_cast<int>(std::min<std::int64_t>(ms, busy ? kLookMs : 3'600'000));
}

// One machine that could run it is enough. Those that are away or do not answer in time are asked
// again when it is to start there.
Status Dispatcher::check_machines(const agent::CheckOrder& order) {
  std::vector<agent::Agent*> asked;
  {
    const std::lock_guard lock(mutex_);
    for (const Machine& machine : machines_) {
      agent::Agent* const agent = parts_.agents.find(machine.node);
      if (machine.reachable && agent != nullptr) asked.push_back(agent);
    }
  }
  Status refused;
  bool all_answered = true;
  for (agent::Agent* const agent : asked) {
    const auto runs = agent::ask_and_wait(*agent, order, kMachinePatience);
    if (runs) return {};
    const ErrorCode code = runs.error().code;
    if (code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout) {
      all_answered = false;
    } else {
      refused = err(runs.error());
    }
  }
  return all_answered ? refused : Status();
}

Status Dispatcher::check_secrets(const model::JobSpec& spec, const std::string& owner) {
  if (parts_.secrets != nullptr) return parts_.secrets->check(owner, spec.secrets);
  return err(ErrorCode::kUnsupported, "secrets: this daemon keeps none");
}

Status Dispatcher::check_notify(const model::Notify& notify) {
  if (parts_.check_notify) return parts_.check_notify(notify);
  return err(ErrorCode::kUnsupported, "notify: this daemon sends no messages");
}

Status Dispatcher::check(const model::JobSpec& asked, const std::string& owner) {
  if (asked.notify) DIVVY_RETURN_IF_ERROR(check_notify(*asked.notify));
  if (!asked.secrets.empty()) DIVVY_RETURN_IF_ERROR(check_secrets(asked, owner));
  DIVVY_TRY(user, user_name_of(parts_.database, owner));
  DIVVY_RETURN_IF_ERROR(
      check_machines({std::move(user), asked.container,
                      asked.mode.value_or(model::GpuMode::kTimeslice), asked.limits.ulimits}));
  const model::JobSpec spec = with_defaults(asked);
  std::vector<jobs::FinishedJob> finished;
  if (!spec.after.empty()) {
    DIVVY_TRY(found, parts_.database.read([&](store::Connection& connection) {
      return finished_before(connection, spec);
    }));
    finished = std::move(found);
  }
  const std::lock_guard lock(mutex_);
  return queue_->check(spec, owner, finished);
}

model::JobSpec Dispatcher::with_defaults(model::JobSpec spec) {
  const std::lock_guard lock(mutex_);
  return queue_->with_defaults(std::move(spec));
}

Result<store::Submitted> Dispatcher::submit(NewJob wanted) {
  if (wanted.spec.name.empty()) wanted.spec.name = job_name(wanted.spec.command);
  if (!wanted.spec.mode) wanted.spec.mode = mode_for(wanted.spec);
  wanted.spec = with_defaults(std::move(wanted.spec));
  DIVVY_RETURN_IF_ERROR(check(wanted.spec, wanted.owner));
  const WallTime at = parts_.clock.wall_now();
  model::JobId first;
  {
    const std::lock_guard lock(mutex_);
    first = next_id_;
    next_id_ = model::JobId(first.value() + jobs::jobs_of(wanted.spec));
  }
  const store::Submission submission{
      .owner = wanted.owner,
      .at = at,
      .make = [&](model::JobId id) { return jobs::expand(id, wanted.owner, wanted.spec, at); },
      .key = wanted.key,
      .fingerprint = wanted.fingerprint,
      .first = first};
  store::Submitted submitted;
  std::vector<jobs::FinishedJob> finished;
  const Status kept = parts_.database.commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(made, store::submit(connection, submission));
    submitted = std::move(made);
    if (submitted.repeated) return {};
    store::EventTable events(connection);
    for (const model::Job& job : submitted.jobs) {
      for (const model::JobStep& step : job.history) {
        DIVVY_RETURN_IF_ERROR(events.add(event_of(job, step)));
      }
    }
    DIVVY_TRY(before, finished_before(connection, wanted.spec));
    finished = std::move(before);
    return {};
  });
  if (!kept) return err(kept.error());
  if (submitted.repeated) return submitted;
  const WallTime now = parts_.clock.wall_now();
  {
    const std::lock_guard lock(mutex_);
    for (const model::Job& job : submitted.jobs) {
      steps_told_[job.id] = job.history.size();
      queue_->submit(job, now, finished);
    }
    if (on_events_) on_events_();
  }
  wake();
  return submitted;
}

Status Dispatcher::change(const Change& change) {
  std::unique_lock lock(mutex_);
  DIVVY_RETURN_IF_ERROR(change(*queue_, parts_.clock.wall_now()));
  const std::uint64_t mine = ++changes_;
  wake();
  if (parts_.drive == Drive::kCaller) return {};
  // The next write has it. One that fails is tried again, but whoever waits is told.
  written_.wait(lock, [&] { return stopping_ || changes_written_ >= mine || !last_write_; });
  if (changes_written_ >= mine) return {};
  if (stopping_) return err(ErrorCode::kUnavailable, "the daemon ends; ask again when it is back");
  return with_context(last_write_,
                      "it is not on the disk yet; it counts once it can be written, and is lost if "
                      "divvyd ends before");
}

Status Dispatcher::cancel(model::JobId job, const std::string& by) {
  return change([&](jobs::Queue& queue, WallTime now) { return queue.cancel(job, by, now); });
}

Status Dispatcher::suspend(model::JobId job, const std::string& by) {
  return change([&](jobs::Queue& queue, WallTime now) { return queue.suspend(job, by, now); });
}

Status Dispatcher::resume(model::JobId job, const std::string& by) {
  return change([&](jobs::Queue& queue, WallTime now) { return queue.resume(job, by, now); });
}

Status Dispatcher::requeue(model::JobId job, const std::string& by) {
  return change([&](jobs::Queue& queue, WallTime now) { return queue.requeue(job, by, now); });
}

Status Dispatcher::update(model::JobId job, const jobs::Queue::Edit& edit, const std::string& by) {
  return change([&](jobs::Queue& queue, WallTime now) { return queue.update(job, edit, by, now); });
}

// What is said of one job is on the disk, as are lists: whoever saw a job end finds it among those
// that have ended. While the disk refuses or hangs, it is said all the same.
std::optional<model::Job> Dispatcher::find(model::JobId job) {
  std::unique_lock lock(mutex_);
  const auto is_written = [&] {
    for (const model::JobId changed : queue_->take_changes()) unwritten_.insert(changed);
    return !unwritten_.contains(job) && !in_writing_.contains(job);
  };
  if (parts_.drive == Drive::kThread && !is_written()) {
    wake();
    written_.wait_for(lock, kDiskPatience,
                      [&] { return stopping_ || !last_write_ || is_written(); });
  }
  const model::Job* found = queue_->find(job);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

jobs::WaitReport Dispatcher::explain(model::JobId job) {
  const std::lock_guard lock(mutex_);
  if (queue_->find(job) == nullptr) return {};
  return queue_->explain(job, parts_.clock.wall_now());
}

std::optional<model::Seconds> Dispatcher::idle_left(model::JobId job) {
  const std::lock_guard lock(mutex_);
  if (queue_->find(job) == nullptr) return std::nullopt;
  return queue_->idle_left(job, parts_.clock.wall_now());
}

std::vector<jobs::QueueReport> Dispatcher::queues() {
  const std::lock_guard lock(mutex_);
  return queue_->queues();
}

std::vector<jobs::UserReport> Dispatcher::users() {
  const std::lock_guard lock(mutex_);
  return queue_->users();
}

jobs::Load Dispatcher::load() {
  const std::lock_guard lock(mutex_);
  return queue_->load(parts_.clock.wall_now());
}

jobs::Snapshot Dispatcher::snapshot(std::size_t most_waiting) {
  const std::lock_guard lock(mutex_);
  return queue_->snapshot(most_waiting);
}

Status Dispatcher::set_settings(jobs::Settings settings) {
  {
    const std::lock_guard lock(mutex_);
    DIVVY_RETURN_IF_ERROR(queue_->set_settings(std::move(settings)));
  }
  wake();
  return {};
}

void Dispatcher::on_events(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  on_events_ = std::move(call);
}

std::size_t Dispatcher::entries_kept() {
  const std::lock_guard lock(mutex_);
  return unwritten_.size() + steps_told_.size() + decided_.size() + ended_.size() +
         releasing_.size() + released_.size() + deferred_.size() + strays_.size() +
         refused_.size() + unstored_.size() + admissions_.size() + gone_.size() + doubtful_.size() +
         untold_.size() + books_.size() + unbooked_.size() + untold_events_.size() + lines_.size();
}

// --- The round ---

void Dispatcher::step() {
  std::unique_lock lock(mutex_);
  const WallTime now = parts_.clock.wall_now();
  compare_returned();
  hear_gone();
  tell_released();
  release_ended();
  if (count_due(now)) count_activity();
  if (may_pass()) {
    decide(now, fleet());
    if (refusals_due()) reap();
    refuse_fresh(now);
  }
  grant_admitted();
  end_strays(now);
  look_at_doubtful(now);
  stop_again(now);
  answer_admitted();  // those that have ended: the queue forgets them when they are written
  const bool written = write(lock);
  if (!written) refuse_unstored();
  answer_admitted();
  if (!written) return;
  for (const jobs::Decision& decision : std::exchange(decided_, {})) act(decision);
  start_deferred(now);
}

// A member that was not told (its shepherd was too busy to answer) holds its GPU until it is.
void Dispatcher::stop_again(WallTime now) {
  for (auto it = untold_.begin(); it != untold_.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    const model::JobId job = it->first;
    const Order order = it->second;
    it = untold_.erase(it);
    add_stop(job, order.attempt, order.grace);
  }
}

// A pass through a long line takes milliseconds, in which nobody else gets at the queue. So after
// one there is a pause of a few times its length, and whatever comes meanwhile shares the next one.
bool Dispatcher::may_pass() {
  pass_due_ = parts_.drive == Drive::kThread && std::chrono::steady_clock::now() < rested_;
  return !pass_due_;
}

void Dispatcher::decide(WallTime now, const jobs::Fleet& fleet) {
  const auto begin = std::chrono::steady_clock::now();
  if (const Status known = queue_->set_fleet(fleet); !known) {
    log_error("GPUs not usable by the queue", {{"reason", known.error().message}});
  }
  for (jobs::Decision& decision : queue_->pass(now)) decided_.push_back(std::move(decision));
  const auto end = std::chrono::steady_clock::now();
  passes_.record(end - begin);
  rested_ = end + std::min<std::chrono::steady_clock::duration>(kRest * (end - begin), 200ms);
}

// The queue hears of an end when the slice is free: it would give it to somebody at once.
void Dispatcher::release_ended() {
  for (const auto& [key, ended] : ended_) {
    // What is left of a stray of the same name still uses the slice.
    if (strays_.contains(key) || !releasing_.insert(key).second) continue;
    lines_.add(key.job, release(key, ended.node));
  }
}

Task Dispatcher::release(model::MemberKey key, std::string node) {
  const auto released = co_await ask(node, agent::ReleaseOrder{key});
  if (!released) {
    log_warning("slice not released yet",
                {{"member", to_string(key)}, {"reason", released.error().message}});
    releasing_.erase(key);  // The next round tries again.
    co_return;
  }
  if (const auto ended = ended_.find(key); ended != ended_.end()) {
    ended->second.end.use.gpu_memory_peak = released->memory_peak;
  }
  released_.push_back(key);
}

void Dispatcher::tell_released() {
  for (const model::MemberKey& key : std::exchange(released_, {})) {
    releasing_.erase(key);
    const auto ended = ended_.extract(key);
    const WallTime now = parts_.clock.wall_now();
    if (const model::Job* job = queue_->find(key.job)) {
      book(*job, now);
      book_cpu(*job, key, ended.mapped().end, now);
    }
    queue_->member_ended(key.job, key.attempt, key.rank, ended.mapped().end, now);
  }
}

bool Dispatcher::write(std::unique_lock<std::mutex>& lock) {
  for (const model::JobId job : queue_->take_changes()) unwritten_.insert(job);
  // Who will be refused leaves no trace.
  std::set<model::JobId> held_back;
  for (const model::JobId id : unwritten_) {
    if (may_be_refused(id)) held_back.insert(id);
  }
  for (const model::JobId id : held_back) unwritten_.erase(id);
  const auto put_back = [&] { unwritten_.merge(held_back); };
  if (unwritten_.empty() && unbooked_.empty() && untold_events_.empty()) {
    changes_written_ = changes_;
    written_.notify_all();
    put_back();
    return true;
  }
  std::vector<model::Job> written;
  std::vector<std::size_t> told;  // of each: how much of its history is known
  std::vector<bool> is_new;       // of each: there is no row of it
  written.reserve(unwritten_.size());
  told.reserve(unwritten_.size());
  for (const model::JobId id : unwritten_) {
    const model::Job* job = queue_->find(id);
    if (job == nullptr) continue;
    written.push_back(*job);
    told.push_back(steps_told_[id]);
    is_new.push_back(unstored_.contains(id));
  }
  const std::vector<store::UsageRow> usage = unbooked_;
  const std::vector<store::EventRow> happened = std::exchange(untold_events_, {});
  const std::uint64_t upto = changes_;
  in_writing_ = std::exchange(unwritten_, {});
  put_back();
  lock.unlock();
  bool notifies = false;
  const Status committed = parts_.database.commit([&](store::Connection& connection) -> Status {
    store::JobTable table(connection);
    store::EventTable events(connection);
    for (std::size_t j = 0; j < written.size(); ++j) {
      const model::Job& job = written[j];
      DIVVY_RETURN_IF_ERROR(is_new[j] ? table.insert(job) : table.update(job));
      for (std::size_t i = told[j]; i < job.history.size(); ++i) {
        DIVVY_RETURN_IF_ERROR(events.add(event_of(job, job.history[i])));
      }
    }
    // In the change that ends the job: whatever happens next, somebody is told of it.
    store::NotificationTable messages(connection);
    for (const model::Job& job : written) {
      if (const auto message = notification_of(job)) {
        DIVVY_RETURN_IF_ERROR(messages.add(*message));
        notifies = true;
      }
    }
    store::UsageTable books(connection);
    for (const store::UsageRow& row : usage) DIVVY_RETURN_IF_ERROR(books.add(row));
    for (const store::EventRow& event : happened) DIVVY_RETURN_IF_ERROR(events.add(event));
    return {};
  });
  lock.lock();
  in_writing_.clear();
  last_write_ = committed;
  if (!committed) {
    // Nothing of it is done before it is written: the next round tries again.
    log_error("jobs not written", {{"reason", committed.error().message}});
    for (const model::Job& job : written) unwritten_.insert(job.id);
    untold_events_.insert(untold_events_.begin(), happened.begin(), happened.end());
    if (untold_events_.size() > kMostUntoldEvents) untold_events_.resize(kMostUntoldEvents);
    written_.notify_all();
    return false;
  }
  changes_written_ = upto;
  unbooked_.erase(unbooked_.begin(), unbooked_.begin() + static_cast<std::ptrdiff_t>(usage.size()));
  for (const model::Job& job : written) {
    unstored_.erase(job.id);
    steps_told_[job.id] = job.history.size();
    const model::Job* now = queue_->find(job.id);
    if (now != nullptr && model::is_finished(now->state) && !unwritten_.contains(job.id) &&
        now->history.size() == job.history.size()) {
      queue_->forget(job.id);
      steps_told_.erase(job.id);
      books_.erase(job.id);
    }
  }
  written_.notify_all();
  if (on_events_) on_events_();
  if (notifies && parts_.on_notification) parts_.on_notification();
  return true;
}

// An event that may be lost with a crash: nothing depends on it.
void Dispatcher::tell(store::EventRow event) {
  parts_.database.later([event = std::move(event)](store::Connection& connection) -> Status {
    DIVVY_TRY(number, store::EventTable(connection).add(event));
    static_cast<void>(number);
    return {};
  });
}

void Dispatcher::act(const jobs::Decision& decision) {
  if (const auto* start = std::get_if<jobs::Start>(&decision)) {
    const model::Job* job = queue_->find(start->job);
    if (job == nullptr || job->attempt != start->attempt) return;
    books_[job->id] = {parts_.clock.wall_now(), 0};
    deferred_.insert_or_assign(job->id, DeferredStart{*job, start->members, {}});
  } else if (const auto* stop = std::get_if<jobs::Stop>(&decision)) {
    add_stop(stop->job, stop->attempt, stop->grace);
  } else if (const auto* warn = std::get_if<jobs::Warn>(&decision)) {
    log_info("job holds a GPU and does not use it",
             {{"job", warn->job.value()}, {"left_s", warn->left.count()}});
    if (const model::Job* job = queue_->find(warn->job)) {
      tell(
          event_of(*job, {parts_.clock.wall_now(), job->state,
                          fmt::format("it does not use its GPU and is ended in {} s unless it does",
                                      warn->left.count())}));
    }
  }
}

}  // namespace divvy::control
