#include "jobs/snapshot.h"

#include <algorithm>

#include "jobs/dependencies.h"

namespace divvy::jobs {
namespace {

model::Job copy_of(const model::Job& job, const Dependencies& dependencies) {
  model::JobSpec spec(job.spec.request);
  spec.name = job.spec.name;
  spec.queue = job.spec.queue;
  spec.command = {"snapshot"};  // every job has one; this one is never run
  spec.least_members = job.spec.least_members;
  spec.devices = job.spec.devices;
  spec.where = job.spec.where;
  spec.job_class = job.spec.job_class;
  spec.limits = job.spec.limits;
  spec.priority = job.spec.priority;
  spec.preemptible = job.spec.preemptible;
  spec.grace = job.spec.grace;
  spec.minimum_run = job.spec.minimum_run;
  spec.time_limit = job.spec.time_limit;
  spec.expected = job.spec.expected;
  spec.retry = job.spec.retry;
  spec.holder = job.spec.holder;
  spec.mode = job.spec.mode;
  spec.hold_for_capacity = true;  // what fits no more in another fleet waits, and is told of
  model::JobSpec one(job.spec.request);
  for (const model::Dependency& dependency : job.spec.after) {
    one.after = {dependency};
    if (dependencies.outlook(one).answer == Dependencies::Answer::kMet) continue;
    spec.after.push_back(dependency);
  }
  model::Job copy(job.id, job.owner, std::move(spec), job.submitted);
  copy.task = job.task;
  copy.state = job.state;
  copy.stopping = job.stopping;
  copy.attempt = job.attempt;
  copy.failures = job.failures;
  copy.not_before = job.not_before;
  copy.started = job.started;
  copy.members = job.members;
  return copy;
}

}  // namespace

Snapshot snapshot_of(const QueueView& view, std::size_t most_waiting) {
  Snapshot snapshot;
  snapshot.settings = view.settings;
  snapshot.fleet = view.fleet.fleet();
  snapshot.usage = view.shares.rows(view.tree);
  std::vector<model::JobId> active;
  std::vector<model::JobId> others;
  for (const auto& [id, entry] : view.book.entries()) {
    if (is_active(entry.job.state)) {
      active.push_back(id);
    } else if (!is_finished(entry.job.state) && entry.waits != Waits::kInLine) {
      others.push_back(id);
    }
  }
  std::ranges::sort(active);
  std::ranges::sort(others);
  std::vector<model::JobId> waiting = view.order();
  waiting.insert(waiting.end(), others.begin(), others.end());
  if (waiting.size() > most_waiting) {
    snapshot.left_out = waiting.size() - most_waiting;
    waiting.resize(most_waiting);
  }
  snapshot.jobs.reserve(active.size() + waiting.size());
  for (const std::vector<model::JobId>* const ids : {&active, &waiting}) {
    for (const model::JobId id : *ids) {
      snapshot.jobs.push_back(copy_of(view.book.at(id).job, view.book.dependencies()));
    }
  }
  return snapshot;
}

}  // namespace divvy::jobs
