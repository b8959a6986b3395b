// The jobs that an array is made of. Pure; the API calls it for every submit.
#pragma once

#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::jobs {

// How many numbers a submit takes.
[[nodiscard]] std::uint32_t jobs_of(const model::JobSpec& spec);

// One job for a spec without an array; otherwise one for each task, numbered from `first` on. The
// spec has passed model::check().
[[nodiscard]] std::vector<model::Job> expand(model::JobId first, const std::string& owner,
                                             const model::JobSpec& spec, WallTime submitted);

}  // namespace divvy::jobs
