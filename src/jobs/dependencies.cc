#include "jobs/dependencies.h"

#include <fmt/format.h>

#include "base/check.h"

namespace divvy::jobs {
namespace {

std::string_view verb(model::DependencyKind kind) {
  switch (kind) {
    case model::DependencyKind::kSucceeded:
      return "succeed";
    case model::DependencyKind::kFailed:
      return "fail";
    case model::DependencyKind::kEnded:
      return "end";
  }
  return "end";
}

}  // namespace

void Dependencies::count(Group& group, model::JobState state) {
  switch (state) {
    case model::JobState::kSucceeded:
      ++group.succeeded;
      break;
    case model::JobState::kFailed:
      ++group.failed;
      break;
    case model::JobState::kCancelled:
      ++group.cancelled;
      break;
    default:
      ++group.open;
  }
}

// A task of an array can be waited for by itself too, except for the first, whose number is that of
// the array.
void Dependencies::add(const model::Job& job) {
  count(groups_[job.id], job.state);
  if (job.task && job.task->array != job.id) count(groups_[job.task->array], job.state);
  for (const model::Dependency& dependency : job.spec.after) {
    groups_[dependency.job].waiting.insert(job.id);
  }
}

void Dependencies::add(const FinishedJob& finished) {
  count(groups_[finished.id], finished.state);
  if (finished.array && *finished.array != finished.id) {
    count(groups_[*finished.array], finished.state);
  }
}

std::vector<model::JobId> Dependencies::finish(const model::Job& job) {
  std::set<model::JobId> affected;
  const auto close = [&](model::JobId id) {
    Group& group = groups_[id];
    DIVVY_CHECK(group.open != 0, "job {} ends twice", job.id);
    --group.open;
    count(group, job.state);
    affected.insert(group.waiting.begin(), group.waiting.end());
  };
  close(job.id);
  if (job.task && job.task->array != job.id) close(job.task->array);
  for (const model::Dependency& dependency : job.spec.after) {
    const auto found = groups_.find(dependency.job);
    if (found != groups_.end()) found->second.waiting.erase(job.id);
  }
  affected.erase(job.id);
  return {affected.begin(), affected.end()};
}

void Dependencies::forget(model::JobId job) {
  const auto found = groups_.find(job);
  if (found == groups_.end()) return;
  // What is still waited for, or has tasks that run, stays until the last of them has gone.
  if (found->second.open == 0 && found->second.waiting.empty()) groups_.erase(found);
}

Dependencies::Answer Dependencies::answer(const Group& group, model::DependencyKind kind) {
  const bool ended = group.open == 0;
  switch (kind) {
    case model::DependencyKind::kSucceeded:
      if (group.failed + group.cancelled != 0) return Answer::kNever;
      return ended ? Answer::kMet : Answer::kWaits;
    case model::DependencyKind::kFailed:
      if (group.failed != 0) return Answer::kMet;
      return ended ? Answer::kNever : Answer::kWaits;
    case model::DependencyKind::kEnded:
      return ended ? Answer::kMet : Answer::kWaits;
  }
  return Answer::kMet;
}

Dependencies::Outlook Dependencies::outlook(const model::JobSpec& spec) const {
  Outlook first;
  for (const model::Dependency& dependency : spec.after) {
    const auto found = groups_.find(dependency.job);
    const bool known = found != groups_.end() && found->second.open + found->second.succeeded +
                                                         found->second.failed +
                                                         found->second.cancelled !=
                                                     0;
    const Answer here = known ? answer(found->second, dependency.kind) : Answer::kNever;
    if (here == Answer::kMet) continue;
    if (here == Answer::kNever) {
      const std::string why =
          known ? fmt::format("it waited for job {} to {}, which can no longer happen",
                              dependency.job, verb(dependency.kind))
                : fmt::format("it waited for job {}, which is not known any more", dependency.job);
      return {Answer::kNever, dependency, why};
    }
    if (first.answer == Answer::kMet) {
      first = {Answer::kWaits, dependency,
               fmt::format("it waits for job {} to {}", dependency.job, verb(dependency.kind))};
    }
  }
  return first;
}

}  // namespace divvy::jobs
