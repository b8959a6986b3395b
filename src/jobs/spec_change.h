// How a job that was updated differs from what it was, in words for its history. Pure.
#pragma once

#include <string>

#include "model/job_spec.h"

namespace divvy::jobs {

// "queue b instead of a, members 2 instead of 1": what decides where it can be; empty: the same.
[[nodiscard]] std::string other_place(const model::JobSpec& now, const model::JobSpec& before);
// "priority 7 instead of 0": what may change while it runs.
[[nodiscard]] std::string other_rules(const model::JobSpec& now, const model::JobSpec& before);

}  // namespace divvy::jobs
