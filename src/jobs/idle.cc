#include "jobs/idle.h"

#include <algorithm>

namespace divvy::jobs {

void IdleWatch::begin(model::JobId job, WallTime now) { jobs_[job] = {now, false}; }

void IdleWatch::used(model::JobId job, WallTime at) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || at < found->second.used) return;
  found->second = {at, false};
}

IdleWatch::Verdict IdleWatch::look(model::JobId job, const IdlePolicy& policy, WallTime now) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || policy.after == Seconds(0)) return {};
  State& state = found->second;
  // A clock that was set back must not bring an end forward later.
  state.used = std::min(state.used, now);
  const Duration idle = now - state.used;
  Verdict verdict;
  verdict.end = idle >= policy.after;
  if (!verdict.end && idle < policy.after - policy.warning) return {};
  verdict.left =
      verdict.end ? Seconds(0) : std::chrono::ceil<Seconds>(Duration(policy.after) - idle);
  verdict.warn = !verdict.end && !std::exchange(state.warned, true);
  return verdict;
}

std::optional<Seconds> IdleWatch::left(model::JobId job, const IdlePolicy& policy,
                                       WallTime now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.warned) return std::nullopt;
  const Duration left = policy.after - (now - found->second.used);
  return std::max(Seconds(0), std::chrono::ceil<Seconds>(left));
}

std::optional<WallTime> IdleWatch::next(model::JobId job, const IdlePolicy& policy) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || policy.after == Seconds(0)) return std::nullopt;
  const State& state = found->second;
  return state.used + (state.warned ? policy.after : policy.after - policy.warning);
}

}  // namespace divvy::jobs
