#include "jobs/attempts.h"

#include <algorithm>
#include <numeric>
#include <ranges>

#include "base/counted.h"
#include "base/text.h"
#include "jobs/explain.h"
#include "jobs/retry.h"

namespace divvy::jobs {
namespace {

using model::JobState;
using model::StopReason;

// The place may be free again soon; the fleet is told of it in the meantime. If it is refused again
// and again something else is wrong, and its history should not grow without end.
constexpr model::RetryPolicy kRefused{1'000'000, Seconds(5), Seconds(600)};

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

void Attempts::start(Entry& entry, std::span<const place::Spot> spots, WallTime now) {
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
  book_.become(entry, JobState::kStarting, now, text);
  holdings_.add(entry);
  decisions_.emplace_back(Start{job.id, job.attempt, job.members, std::move(text)});
}

void Attempts::restore(Entry& entry, WallTime now) {
  holdings_.add(entry);
  model::Job& job = entry.job;
  if (!job.spec.request.no_gpu()) idle_.begin(job.id, now);
  if (job.state != JobState::kStopping) return;
  job.stopping = job.stopping.value_or(StopReason::kCancelled);
  const auto& history = job.history;
  const auto begun = std::ranges::find(history.rbegin(), history.rend(), JobState::kStopping,
                                       &model::JobStep::state);
  const WallTime since = begun == history.rend() ? now : begun->at;
  const WallTime stop_by = std::max(now, since + job.spec.grace);
  holdings_.set_stop_by(job.id, stop_by);
  decisions_.emplace_back(Stop{job.id, job.attempt, *job.stopping,
                               std::min(job.spec.grace, std::chrono::ceil<Seconds>(stop_by - now)),
                               begun == history.rend() ? std::string() : begun->reason,
                               std::nullopt});
}

void Attempts::member_started(Entry& entry, std::uint32_t rank, WallTime now) {
  if (entry.job.state != JobState::kStarting) return;
  const std::size_t members = entry.job.members.size();
  if (holdings_.member_started(entry.job.id, rank) < members) return;
  entry.refusals = 0;
  book_.become(entry, JobState::kRunning, now,
               members == 1 ? "started" : fmt::format("all {} members started", members));
  if (!entry.job.spec.request.no_gpu()) idle_.begin(entry.job.id, now);
}

void Attempts::member_ended(Entry& entry, std::uint32_t rank, model::MemberEnd end, WallTime now) {
  if (rank >= entry.job.members.size()) return;
  model::JobMember& member = entry.job.members[rank];
  if (member.end) return;
  member.end = std::move(end);
  book_.mark_changed(entry);
  // Who ended had begun, whether that was told or not.
  member_started(entry, rank, now);
  end_if_over(entry, now);
}

void Attempts::dissolve(Entry& entry, WallTime now) {
  let_go(entry);
  book_.finish(entry, JobState::kSucceeded, now, "it is a part of another job");
}

void Attempts::start_refused(Entry& entry, const std::string& why, WallTime now) {
  if (entry.job.state == JobState::kStopping) return stopped(entry, now);
  let_go(entry);
  queue_again(entry, now, fmt::format("not started: {}", why),
              retry_pause(kRefused, ++entry.refusals));
}

void Attempts::start_failed(Entry& entry, const std::string& why, WallTime now) {
  if (entry.job.state == JobState::kStopping) return stopped(entry, now);
  let_go(entry);
  failed(entry, now, fmt::format("could not be started: {}", why));
}

void Attempts::let_go(Entry& entry) {
  holdings_.remove(entry);
  idle_.finish(entry.job.id);
}

void Attempts::queue_again(Entry& entry, WallTime now, std::string reason,
                           std::optional<Seconds> pause) {
  book_.become(entry, JobState::kQueued, now, std::move(reason));
  if (pause) entry.job.not_before = now + *pause;
  book_.enqueue(entry, now);
}

void Attempts::stop(Entry& entry, StopReason reason, WallTime now, std::string text,
                    std::optional<model::JobId> makes_way_for) {
  book_.become(entry, JobState::kStopping, now, text);
  entry.job.stopping = reason;
  holdings_.set_stop_by(entry.job.id, now + entry.job.spec.grace);
  decisions_.emplace_back(Stop{entry.job.id, entry.job.attempt, reason, entry.job.spec.grace,
                               std::move(text), makes_way_for});
}

void Attempts::change_stop_reason(Entry& entry, StopReason reason, WallTime now, std::string text) {
  entry.job.stopping = reason;
  book_.note(entry, now, std::move(text));
}

// A member has ended: is that the end of the job?
void Attempts::end_if_over(Entry& entry, WallTime now) {
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
  if (job.state == JobState::kStarting) book_.become(entry, JobState::kRunning, now, "started");
  let_go(entry);
  if (failure != nullptr) {
    failed(entry, now, how_it_ended(*failure, job.members.size()));
    return;
  }
  if (job.spec.holder != model::Holder::kMembers) {
    book_.finish(entry, JobState::kSucceeded, now, job.members.front().end->reason);
    return;
  }
  if (job.started) {
    Lengths& lengths = lengths_[{entry.queue, entry.user}];
    lengths.sum_s += std::chrono::duration<double>(now - *job.started).count();
    lengths.count += 1;
  }
  book_.finish(entry, JobState::kSucceeded, now, "ended with exit code 0");
}

// Nothing of it lives: what comes after that was decided when it was told to stop.
void Attempts::stopped(Entry& entry, WallTime now) {
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
    book_.finish(entry, JobState::kSucceeded, now,
                 "had ended with exit code 0 before it was stopped");
    return;
  }
  switch (reason) {
    case StopReason::kCancelled:
      return book_.finish(entry, JobState::kCancelled, now, "stopped");
    case StopReason::kTimeLimit:
      return book_.finish(entry, JobState::kFailed, now, "its time was up");
    case StopReason::kIdle:
      return book_.finish(entry, JobState::kFailed, now, "it did not use its GPU");
    case StopReason::kSuspended:
      return book_.become(entry, JobState::kSuspended, now, "stopped");
    case StopReason::kMemberFailed:
      return failed(entry, now, why);
    case StopReason::kPreempted:
    case StopReason::kReclaimed:
    case StopReason::kPlaceLost:
      return queue_again(entry, now, "stopped; it starts again when it is its turn", {});
  }
}

// It has let go. Tried again while there are retries.
void Attempts::failed(Entry& entry, WallTime now, const std::string& why) {
  const model::RetryPolicy& retry = entry.job.spec.retry;
  const std::uint32_t failures = ++entry.job.failures;
  const auto pause = retry_pause(retry, failures);
  if (!pause) {
    book_.finish(
        entry, JobState::kFailed, now,
        retry.most > 0 ? fmt::format("{}; it was tried {}", why, counted(failures, "time")) : why);
    return;
  }
  queue_again(entry, now,
              fmt::format("{}; tried again in {} s ({} of {})", why, pause->count(), failures,
                          counted(retry.most, "retry", "retries")),
              pause);
}

void Attempts::stop_overdue(WallTime now) {
  for (const auto& [id, holding] : holdings_.jobs()) {
    Entry& entry = book_.at(id);
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

void Attempts::cancel_hopeless(WallTime now) {
  // One that is cancelled may take the last hope of others.
  while (Entry* const entry = book_.first_hopeless()) {
    std::string text = book_.dependencies().outlook(entry->job.spec).text;
    book_.dequeue(*entry);
    book_.finish(*entry, JobState::kCancelled, now, text);
    decisions_.emplace_back(Cancel{entry->job.id, std::move(text)});
  }
}

std::vector<Decision> Attempts::take_decisions() {
  // A job may have come to its end after it was told to stop and before anybody asked.
  std::erase_if(decisions_, [this](const Decision& decision) {
    const Stop* const stop = std::get_if<Stop>(&decision);
    if (stop == nullptr) return false;
    const Entry* const entry = book_.active(stop->job, stop->attempt);
    return entry == nullptr || entry->job.state != JobState::kStopping;
  });
  return std::exchange(decisions_, {});
}

std::optional<Seconds> Attempts::idle_left(const Entry& entry, WallTime now) const {
  return idle_.left(entry.job.id, tree_.idle(entry.queue), now);
}

std::optional<WallTime> Attempts::next_due(bool others_wait, WallTime now) const {
  std::optional<WallTime> next;
  const auto at = [&next](WallTime time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [id, holding] : holdings_.jobs()) {
    const model::Job& job = holding.job();
    if (job.state != JobState::kRunning) continue;
    if (job.spec.time_limit) at(*job.started + *job.spec.time_limit);
    if (const auto idle = idle_.next(id, tree_.idle(holding.entry->queue))) at(*idle);
    const WallTime settled = *job.started + job.spec.minimum_run;
    if (others_wait && settled > now) at(settled);
  }
  return next;
}

std::optional<Seconds> Attempts::usual_length(const Entry& entry) const {
  if (entry.job.spec.expected) return entry.job.spec.expected;
  const auto known = lengths_.find({entry.queue, entry.user});
  if (known != lengths_.end()) {
    return Seconds(static_cast<Seconds::rep>(known->second.sum_s / known->second.count) + 1);
  }
  return entry.job.spec.time_limit;
}

}  // namespace divvy::jobs
