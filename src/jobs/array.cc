#include "jobs/array.h"

namespace divvy::jobs {

std::uint32_t jobs_of(const model::JobSpec& spec) { return spec.array ? spec.array->tasks() : 1; }

std::vector<model::Job> expand(model::JobId first, const std::string& owner,
                               const model::JobSpec& spec, WallTime submitted) {
  std::vector<model::Job> jobs;
  const std::uint32_t tasks = jobs_of(spec);
  jobs.reserve(tasks);
  model::JobSpec each = spec;
  each.array.reset();
  for (std::uint32_t i = 0; i < tasks; ++i) {
    model::Job& job = jobs.emplace_back(model::JobId(first.value() + i), owner, each, submitted);
    job.history.push_back({submitted, model::JobState::kQueued, "submitted"});
    if (spec.array) {
      job.task =
          model::ArrayTask{first, spec.array->first + i * spec.array->step, spec.array->at_once};
    }
  }
  return jobs;
}

}  // namespace divvy::jobs
