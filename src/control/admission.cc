#include "control/admission.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "control/dispatcher.h"
#include "jobs/array.h"

namespace divvy::control {

Result<std::shared_ptr<Admission>> Dispatcher::admit(NewJob wanted, agent::LocalCaller caller,
                                                     bool waits) {
  UniqueFd ready(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready) return err(ErrorCode::kResourceExhausted, "no descriptor to wait with");
  std::string name = wanted.spec.name;
  if (wanted.spec.name.empty()) {
    // The whole command is one text here.
    std::vector<std::string> program = wanted.spec.command;
    if (!program.empty()) program[0].resize(std::min(program[0].find(' '), program[0].size()));
    wanted.spec.name = job_name(program);
  }
  if (!wanted.spec.mode) wanted.spec.mode = mode_for(wanted.spec);
  wanted.spec = with_defaults(std::move(wanted.spec));
  // Divvy cannot start it again.
  wanted.spec.preemptible = false;
  auto admission = std::make_shared<Admission>(std::move(name), caller, waits, std::move(ready));
  const WallTime now = parts_.clock.wall_now();
  {
    const std::lock_guard lock(mutex_);
    DIVVY_RETURN_IF_ERROR(queue_->check(wanted.spec, wanted.owner));
    admission->job_ = next_id_;
    next_id_ = next_id_.next();
    unstored_.insert(admission->job_);
    steps_told_[admission->job_] = 0;
    admissions_.emplace(admission->job_, admission);
    queue_->submit(jobs::expand(admission->job_, wanted.owner, wanted.spec, now).front(), now);
  }
  wake();
  return admission;
}

std::optional<Result<AdmissionAnswer>> Dispatcher::answer(
    const std::shared_ptr<Admission>& admission) {
  const std::lock_guard lock(mutex_);
  return std::exchange(admission->answer_, std::nullopt);
}

void Dispatcher::give_up(const std::shared_ptr<Admission>& admission) {
  {
    const std::lock_guard lock(mutex_);
    if (admissions_.erase(admission->job_) == 0) return;
    drop(admission->job_);
  }
  wake();
}

// Nobody waits for it any more, and no answer was given.
void Dispatcher::drop(model::JobId id) {
  const model::Job* const job = queue_->find(id);
  if (job == nullptr || model::is_finished(job->state)) return;
  if (job->state == model::JobState::kQueued && is_unheard_of(id)) {
    withdraw(id);
    return;
  }
  if (const Status told = queue_->cancel(id, "whoever asked, who is gone", parts_.clock.wall_now());
      !told) {
    log_warning("job not cancelled", {{"job", id.value()}, {"reason", told.error().message}});
  }
  ++changes_;
}

bool Dispatcher::is_unheard_of(model::JobId id) const {
  return unstored_.contains(id) && !in_writing_.contains(id);
}

void Dispatcher::withdraw(model::JobId id) {
  queue_->withdraw(id);
  unstored_.erase(id);
  unwritten_.erase(id);
  steps_told_.erase(id);
  // Whoever is refused again and again would use up numbers.
  if (next_id_ == id.next()) next_id_ = id;
}

void Dispatcher::tell(Admission& admission, Result<AdmissionAnswer> answer) {
  admission.answer_ = std::move(answer);
  const std::uint64_t one = 1;
  (void)!::write(admission.ready_.get(), &one, sizeof one);
}

bool Dispatcher::may_be_refused(model::JobId id) const {
  const auto found = admissions_.find(id);
  if (found == admissions_.end() || !found->second->fresh_ || found->second->waits_) return false;
  const model::Job* const job = queue_->find(id);
  return job != nullptr && job->state == model::JobState::kQueued;
}

bool Dispatcher::refusals_due() const {
  return std::ranges::any_of(admissions_, [this](const auto& item) {
    return item.second->reap_ == Admission::Reap::kNone && may_be_refused(item.first);
  });
}

// Somebody may have ended a moment ago: `divvy run a; divvy run b` must work. So nobody is refused
// before the machines have said who has.
void Dispatcher::reap() {
  std::vector<std::shared_ptr<Admission>> asking;
  for (auto& [id, admission] : admissions_) {
    if (!admission->fresh_ || admission->reap_ != Admission::Reap::kNone) continue;
    admission->reap_ = Admission::Reap::kAsked;
    asking.push_back(admission);
  }
  const auto left = std::make_shared<std::size_t>(parts_.agents.all().size());
  for (agent::Agent* const agent : parts_.agents.all()) {
    replies_->expect();
    agent::ask(*agent, agent::ReapOrder{},
               [asking, left, box = replies_](const Result<agent::Done>& /*reply*/) {
                 box->deliver([&] {
                   if (--*left > 0) return;
                   for (const auto& one : asking) one->reap_ = Admission::Reap::kDone;
                 });
               });
  }
}

// After a pass: whoever does not wait and was not placed.
void Dispatcher::refuse_fresh(WallTime now) {
  for (auto it = admissions_.begin(); it != admissions_.end();) {
    Admission& admission = *it->second;
    const model::JobId id = it->first;
    if (!may_be_refused(id) || admission.reap_ != Admission::Reap::kDone) {
      if (!may_be_refused(id)) admission.fresh_ = false;
      ++it;
      continue;
    }
    NotNow not_now{queue_->explain(id, now)};
    drop(id);
    tell(admission, AdmissionAnswer(std::move(not_now)));
    it = admissions_.erase(it);
  }
}

// Its slices need not wait for the store: until the answer is given nobody knows of the job, and
// the answer is given when both have it.
void Dispatcher::grant_admitted() {
  std::erase_if(decided_, [this](const jobs::Decision& decision) {
    const auto* const start = std::get_if<jobs::Start>(&decision);
    const model::Job* const job = start == nullptr ? nullptr : queue_->find(start->job);
    if (job == nullptr || job->spec.holder == model::Holder::kMembers) return false;
    if (job->attempt != start->attempt) return true;
    books_[job->id] = {parts_.clock.wall_now(), 0};
    lines_.add(job->id, grant_slices(*job, start->members.front()));
    return true;
  });
}

Task Dispatcher::grant_slices(model::Job job, model::JobMember member) {
  agent::GrantOrder order{.key = {job.id, job.attempt, member.rank}};
  order.holder = job.spec.holder;
  order.slices = member.slices;
  order.mode = job.spec.mode.value_or(model::GpuMode::kTimeslice);
  order.job_class = job.spec.job_class;
  order.command = fmt::to_string(fmt::join(job.spec.command, " "));
  Result<agent::Granted> granted = err(ErrorCode::kCancelled, "whoever asked is gone");
  if (const auto asking = admissions_.find(job.id); asking != admissions_.end()) {
    order.name = asking->second->name_;
    order.caller = asking->second->caller_;
    granted = co_await ask(member.node, std::move(order));
  }
  const auto found = admissions_.find(job.id);
  if (granted) {
    queue_->member_started(job.id, job.attempt, member.rank, parts_.clock.wall_now());
    ++changes_;
    if (found != admissions_.end()) found->second->granted_ = *std::move(granted);
    answer_admitted();
    co_return;
  }
  tell_refused(job.id, job.attempt, granted.error());
  // Somebody was quicker; whoever waits has another chance.
  const bool over =
      found != admissions_.end() &&
      (granted.error().code != ErrorCode::kResourceExhausted || !found->second->waits_);
  if (over) {
    drop(job.id);
    tell(*found->second, err(granted.error()));
    admissions_.erase(found);
  }
}

void Dispatcher::answer_admitted() {
  for (auto it = admissions_.begin(); it != admissions_.end();) {
    Admission& admission = *it->second;
    const model::Job* const job = queue_->find(it->first);
    if (admission.granted_ && !unstored_.contains(it->first)) {
      tell(admission, AdmissionAnswer(Admitted{it->first, *std::move(admission.granted_)}));
    } else if (job == nullptr || model::is_finished(job->state)) {
      const std::string why = job == nullptr ? "it is gone" : job->history.back().reason;
      tell(admission, err(ErrorCode::kCancelled, "job {} did not start: {}", it->first, why));
    } else {
      ++it;
      continue;
    }
    it = admissions_.erase(it);
  }
}

// The store could not be written: what was granted meanwhile is not given.
void Dispatcher::refuse_unstored() {
  for (auto it = admissions_.begin(); it != admissions_.end();) {
    Admission& admission = *it->second;
    if (!admission.granted_ || !unstored_.contains(it->first)) {
      ++it;
      continue;
    }
    drop(it->first);
    // Never kResourceExhausted, which a full disk is: that would be somebody who was quicker.
    tell(admission,
         err(ErrorCode::kIo, "no slice was granted, because its job could not be remembered: {}",
             last_write_.error().message));
    it = admissions_.erase(it);
  }
}

// --- Holders that let go ---

void Dispatcher::hear_gone() {
  const WallTime now = parts_.clock.wall_now();
  for (const model::MemberKey& key : std::exchange(gone_, {})) {
    const model::Job* const job = queue_->find(key.job);
    if (job == nullptr || job->attempt != key.attempt ||
        job->spec.holder == model::Holder::kMembers) {
      continue;
    }
    book(*job, now);
    const bool process = job->spec.holder == model::Holder::kProcess;
    queue_->member_ended(
        key.job, key.attempt, key.rank,
        model::MemberEnd{now, 0, 0, process ? "its process has ended" : "its slice was released"},
        now);
  }
}

Task Dispatcher::stop_holder(model::JobId job, std::uint32_t attempt, model::Seconds grace) {
  const model::Job* known = queue_->find(job);
  if (known == nullptr || known->attempt != attempt || known->members.empty()) co_return;
  const model::MemberKey key{job, attempt, known->members.front().rank};
  if (known->members.front().end) co_return;
  const auto told =
      co_await ask(known->members.front().node,
                   agent::SignalOrder{key, grace > model::Seconds(0) ? SIGTERM : SIGKILL});
  if (told && !told->holds) {
    gone_.push_back(key);
    co_return;
  }
  constexpr model::Seconds kAgain{5};
  known = queue_->find(job);
  const bool holds =
      known != nullptr && known->attempt == attempt && model::is_active(known->state);
  if (!holds) co_return;
  const bool patient = told.has_value() && grace > model::Seconds(0);
  const WallTime due = parts_.clock.wall_now() + (patient ? grace : kAgain);
  untold_[job] = {attempt, told ? model::Seconds(0) : grace, due};
}

Status Dispatcher::resize(model::JobId job, const std::vector<model::Slice>& slices,
                          const std::string& by) {
  {
    const std::lock_guard lock(mutex_);
    hear_gone();
    DIVVY_RETURN_IF_ERROR(queue_->resize(job, slices, by, parts_.clock.wall_now()));
    ++changes_;
  }
  wake();
  return {};
}

std::size_t Dispatcher::waiting() {
  const std::lock_guard lock(mutex_);
  return queue_->waiting();
}

}  // namespace divvy::control
