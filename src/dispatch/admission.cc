#include "dispatch/admission.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "dispatch/dispatcher.h"
#include "jobs/array.h"

namespace divvy::dispatch {

Result<std::shared_ptr<Admission>> Dispatcher::admit(NewJob wanted, MemberUser user, bool waits) {
  UniqueFd ready(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready) return err(ErrorCode::kResourceExhausted, "no descriptor to wait with");
  user.name = wanted.spec.name;
  if (wanted.spec.name.empty()) wanted.spec.name = job_name(wanted.spec.command);
  if (!wanted.spec.mode) wanted.spec.mode = mode_for(wanted.spec);
  wanted.spec = with_defaults(std::move(wanted.spec));
  // Divvy cannot start it again.
  wanted.spec.preemptible = false;
  auto admission = std::make_shared<Admission>(std::move(user), waits, std::move(ready));
  const WallTime now = parts_.clock.wall_now();
  {
    const std::lock_guard lock(mutex_);
    DIVVY_CHECK_OK(queue_->check(wanted.spec, wanted.owner));
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

bool Dispatcher::refusals_due() const {
  return std::ranges::any_of(admissions_, [this](const auto& item) {
    const Admission& admission = *item.second;
    const model::Job* const job = queue_->find(item.first);
    return admission.fresh_ && !admission.waits_ && job != nullptr &&
           job->state == model::JobState::kQueued;
  });
}

// After a pass: whoever does not wait and was not placed.
void Dispatcher::refuse_fresh(WallTime now) {
  for (auto it = admissions_.begin(); it != admissions_.end();) {
    Admission& admission = *it->second;
    const model::JobId id = it->first;
    const model::Job* const job = queue_->find(id);
    const bool refused = std::exchange(admission.fresh_, false) && !admission.waits_ &&
                         job != nullptr && job->state == model::JobState::kQueued;
    if (!refused) {
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
    tasks_->add(
        job->id, JobTasks::Kind::kGrant,
        [this, granted = *job, member = start->members.front()] { grant_slices(granted, member); });
    return true;
  });
}

void Dispatcher::grant_slices(const model::Job& job, const model::JobMember& member) {
  std::optional<MemberUser> user;
  {
    const std::lock_guard lock(mutex_);
    const auto found = admissions_.find(job.id);
    if (found != admissions_.end()) user = found->second->user_;
  }
  const model::MemberKey key{job.id, job.attempt, member.rank};
  auto slice = user ? parts_.machine.grant(key, job, member, *user)
                    : Result<MemberSlice>(err(ErrorCode::kCancelled, "whoever asked is gone"));
  {
    const std::lock_guard lock(mutex_);
    const auto found = admissions_.find(job.id);
    if (slice) {
      queue_->member_started(job.id, job.attempt, member.rank, parts_.clock.wall_now());
      ++changes_;
      if (found != admissions_.end()) found->second->granted_ = *std::move(slice);
      answer_admitted();
    } else {
      tell_refused(job.id, job.attempt, slice.error());
      // Somebody was quicker; whoever waits has another chance.
      const bool over =
          found != admissions_.end() &&
          (slice.error().code != ErrorCode::kResourceExhausted || !found->second->waits_);
      if (over) {
        drop(job.id);
        tell(*found->second, err(slice.error()));
        admissions_.erase(found);
      }
    }
  }
  wake();
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
    tell(admission, err(last_write_.error()));
    it = admissions_.erase(it);
  }
}

// --- Holders that let go ---

void Dispatcher::holder_gone(const model::MemberKey& key) {
  {
    const std::lock_guard lock(mutex_);
    gone_.push_back(key);
  }
  wake();
}

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

// Told first, killed when its grace is over, for as long as it takes.
void Dispatcher::stop_holder(const model::MemberKey& key, model::Seconds grace) {
  if (!parts_.machine.end_holder(key, grace > model::Seconds(0) ? SIGTERM : SIGKILL)) {
    return holder_gone(key);
  }
  constexpr model::Seconds kAgain{5};
  const std::lock_guard lock(mutex_);
  const model::Job* const job = queue_->find(key.job);
  const bool holds = job != nullptr && job->attempt == key.attempt && model::is_active(job->state);
  if (!holds) return;
  const WallTime due = parts_.clock.wall_now() + (grace > model::Seconds(0) ? grace : kAgain);
  untold_[key.job] = {key.attempt, model::Seconds(0), due};
}

Status Dispatcher::resize(model::JobId job, const std::vector<model::Slice>& slices,
                          const std::string& by) {
  {
    const std::lock_guard lock(mutex_);
    hear_gone();
    DIVVY_CHECK_OK(queue_->resize(job, slices, by, parts_.clock.wall_now()));
    ++changes_;
  }
  wake();
  return {};
}

std::size_t Dispatcher::waiting() {
  const std::lock_guard lock(mutex_);
  return queue_->waiting();
}

}  // namespace divvy::dispatch
