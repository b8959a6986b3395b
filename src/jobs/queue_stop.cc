// How a job comes to hold something, and how it lets go: stopped, ended, failed, tried again.
#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "base/plural.h"
#include "base/text.h"
#include "jobs/queue.h"
#include "jobs/retry.h"

namespace divvy::jobs {
namespace {

using model::JobState;
using model::StopReason;

// "rank 1 ended with exit code 3 (out of memory)"
std::string how_it_ended(const model::JobMember& member, std::size_t members) {
  const model::MemberEnd& end = *member.end;
  std::string text = members == 1 ? "" : fmt::format("rank {} ", member.rank);
  text += end.signal != 0 ? fmt::format("was killed by signal {}", end.signal)
                          : fmt::format("ended with exit code {}", end.exit_code);
  if (!end.reason.empty()) text += fmt::format(" ({})", escape_for_terminal(end.reason));
  return text;
}

// The member whose failure was first; null when none failed.
const model::JobMember* first_failure(const std::vector<model::JobMember>& members) {
  const model::JobMember* first = nullptr;
  for (const model::JobMember& member : members) {
    if (!member.end || member.end->succeeded()) continue;
    if (first == nullptr || member.end->at < first->end->at) first = &member;
  }
  return first;
}

bool all_ended(const std::vector<model::JobMember>& members) {
  return std::ranges::all_of(members, [](const auto& member) { return member.end.has_value(); });
}

}  // namespace

// Books what the members hold, as far as the fleet has it.
void Queue::hold(Entry& entry) {
  const bool is_new = active_.insert(entry.job.id).second;
  if (is_new) {
    entry.held = held_by(entry.job.members);
    tree_.take(entry.queue, entry.user, entry.held);
    if (entry.job.task) ++array_active_[entry.job.task->array];
    if (entry.job.spec.mode == model::GpuMode::kMps) ++active_mps_;
  }
  // Who ended had begun; after a restart nobody tells of that again.
  for (const model::JobMember& member : entry.job.members) {
    if (member.end) entry.started.insert(member.rank);
  }
  take_places(entry);
}

void Queue::take_places(Entry& entry) {
  for (const model::JobMember& member : entry.job.members) {
    const auto spot = fleet_.spot_of(member, entry.job.spec);
    if (!spot) continue;
    // Who may be evicted depends on for whom; that is said when it is asked (queue_room.cc).
    entry.holdings.push_back(
        fleet_.take(*spot, entry.job.id.value(), entry.job.spec.priority, false));
  }
}

void Queue::leave_places(Entry& entry) {
  for (const place::HoldingId holding : entry.holdings) fleet_.cluster().release(holding);
  entry.holdings.clear();
}

void Queue::let_go(Entry& entry) {
  leave_places(entry);
  tree_.give_back(entry.queue, entry.user, entry.held);
  entry.held = {};
  entry.started.clear();
  entry.stop_by.reset();
  active_.erase(entry.job.id);
  if (entry.job.spec.mode == model::GpuMode::kMps) --active_mps_;
  idle_.finish(entry.job.id);
  if (!entry.job.task) return;
  const auto running = array_active_.find(entry.job.task->array);
  if (--running->second == 0) array_active_.erase(running);
}

void Queue::stop(Entry& entry, StopReason reason, WallTime now, std::string text,
                 std::optional<model::JobId> makes_way_for) {
  become(entry, JobState::kStopping, now, text);
  entry.job.stopping = reason;
  entry.stop_by = now + entry.job.spec.grace;
  decisions_.emplace_back(Stop{entry.job.id, entry.job.attempt, reason, entry.job.spec.grace,
                               std::move(text), makes_way_for});
}

// One that is being stopped gets another reason; or, with no text, is told once more after a
// restart, because nobody knows whether it was.
void Queue::restop(Entry& entry, StopReason reason, WallTime now, std::string text) {
  entry.job.stopping = reason;
  if (!text.empty()) {
    entry.job.history.push_back({now, JobState::kStopping, std::move(text)});
    changed_.insert(entry.job.id);
    return;
  }
  const auto& history = entry.job.history;
  const auto begun = std::ranges::find(history.rbegin(), history.rend(), JobState::kStopping,
                                       &model::JobStep::state);
  const WallTime since = begun == history.rend() ? now : begun->at;
  entry.stop_by = std::max(now, since + entry.job.spec.grace);
  decisions_.emplace_back(
      Stop{entry.job.id, entry.job.attempt, reason,
           std::min(entry.job.spec.grace, std::chrono::ceil<Seconds>(*entry.stop_by - now)),
           begun == history.rend() ? std::string() : begun->reason, std::nullopt});
}

// A member has ended: is that the end of the job?
void Queue::ended(Entry& entry, WallTime now) {
  model::Job& job = entry.job;
  const bool all = all_ended(job.members);
  if (job.state == JobState::kStopping) {
    if (all) stopped(entry, now);
    return;
  }
  const model::JobMember* const failure = first_failure(job.members);
  if (!all) {
    if (failure == nullptr) return;
    stop(entry, StopReason::kMemberFailed, now, how_it_ended(*failure, job.members.size()));
    return;
  }
  // Its members can have come and gone before anybody heard of the last of them.
  if (job.state == JobState::kStarting) become(entry, JobState::kRunning, now, "started");
  let_go(entry);
  if (failure != nullptr) {
    failed(entry, now, how_it_ended(*failure, job.members.size()));
    return;
  }
  if (job.spec.holder != model::Holder::kMembers) {
    finish(entry, JobState::kSucceeded, now, job.members.front().end->reason);
    return;
  }
  if (job.started) {
    Lengths& lengths = lengths_[{entry.queue, entry.user}];
    lengths.sum_s += std::chrono::duration<double>(now - *job.started).count();
    lengths.count += 1;
  }
  finish(entry, JobState::kSucceeded, now, "ended with exit code 0");
}

// Nothing of it lives: what comes after that was decided when it was told to stop.
void Queue::stopped(Entry& entry, WallTime now) {
  model::Job& job = entry.job;
  const StopReason reason = job.stopping.value_or(StopReason::kCancelled);
  // The moment since which it was being stopped, and why.
  WallTime told = now;
  std::string why = "a member failed";
  for (const model::JobStep& step : job.history | std::views::reverse) {
    if (step.state != JobState::kStopping) break;
    told = step.at;
    why = step.reason;
  }
  const bool was_done =
      !job.members.empty() && std::ranges::all_of(job.members, [told](const auto& member) {
        return member.end && member.end->succeeded() && member.end->at < told;
      });
  let_go(entry);
  if (was_done) {
    finish(entry, JobState::kSucceeded, now, "had ended with exit code 0 before it was stopped");
    return;
  }
  switch (reason) {
    case StopReason::kCancelled:
      finish(entry, JobState::kCancelled, now, "stopped");
      return;
    case StopReason::kTimeLimit:
      finish(entry, JobState::kFailed, now, "its time was up");
      return;
    case StopReason::kIdle:
      finish(entry, JobState::kFailed, now, "it did not use its GPU");
      return;
    case StopReason::kSuspended:
      become(entry, JobState::kSuspended, now, "stopped");
      return;
    case StopReason::kMemberFailed:
      failed(entry, now, why);
      return;
    case StopReason::kPreempted:
    case StopReason::kReclaimed:
    case StopReason::kPlaceLost:
      become(entry, JobState::kQueued, now, "stopped; it starts again when it is its turn");
      enqueue(entry, now);
      return;
  }
}

// It has let go. Tried again while there are retries.
void Queue::failed(Entry& entry, WallTime now, const std::string& why) {
  ++entry.job.failures;
  const auto pause = retry_pause(entry.job.spec.retry, entry.job.failures);
  if (!pause) {
    const bool retried = entry.job.spec.retry.most > 0;
    finish(entry, JobState::kFailed, now,
           retried ? fmt::format("{}; it was tried {}", why, counted(entry.job.failures, "time"))
                   : why);
    return;
  }
  become(entry, JobState::kQueued, now,
         fmt::format("{}; tried again in {} s ({} of {})", why, pause->count(), entry.job.failures,
                     counted(entry.job.spec.retry.most, "retry", "retries")));
  entry.job.not_before = now + *pause;
  enqueue(entry, now);
}

// Time limits, idleness, GPUs that failed.
void Queue::end_overdue(WallTime now) {
  for (const model::JobId id : active_) {
    Entry& entry = *this->entry(id);
    const model::Job& job = entry.job;
    if (job.state == JobState::kStopping) continue;
    // Whoever runs on its own is told by the driver, and by the health of the GPU.
    const bool moves = job.spec.holder == model::Holder::kMembers;
    for (const model::JobMember& member : job.members) {
      const auto lost = moves ? fleet_.lost(member) : std::nullopt;
      if (!lost) continue;
      stop(entry, StopReason::kPlaceLost, now, *lost);
      break;
    }
    if (job.state != JobState::kRunning) continue;
    if (job.spec.time_limit && now - *job.started >= *job.spec.time_limit) {
      stop(entry, StopReason::kTimeLimit, now,
           fmt::format("it ran for the {} s that it may", job.spec.time_limit->count()));
      continue;
    }
    const IdlePolicy& policy = tree_.idle(entry.queue);
    const auto verdict = idle_.look(id, policy, now);
    if (verdict.end) {
      stop(entry, StopReason::kIdle, now,
           fmt::format("it did not use its GPU for {} s", policy.after.count()));
    } else if (verdict.warn) {
      decisions_.emplace_back(
          Warn{id, *verdict.left,
               fmt::format("{} holds a GPU and does not use it; it is ended {} unless it does",
                           name_of(job), about(*verdict.left))});
    }
  }
}

// One that is cancelled may take the last hope of others.
void Queue::cancel_hopeless(WallTime now) {
  while (!hopeless_.empty()) {
    Entry& entry = *this->entry(*hopeless_.begin());
    std::string text = dependencies_.outlook(entry.job.spec).text;
    dequeue(entry);
    finish(entry, JobState::kCancelled, now, text);
    decisions_.emplace_back(Cancel{entry.job.id, std::move(text)});
  }
}

}  // namespace divvy::jobs
