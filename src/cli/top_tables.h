// What `divvy top nodes` and `divvy top jobs` show: who holds and uses what now, summed up from
// what the daemon tells those who watch (GET /v1/stats). Pure, callable from any thread.
#pragma once

#include <string>

#include "cli/answer.h"
#include "cli/list_view.h"

namespace divvy::cli {

// A list with a row for each, those that use most at first. `jobs` is a page of jobs, from which
// they have their names: a member of one is known by its number alone.
[[nodiscard]] std::string node_use_document(const Answer& stats, const Answer& jobs);
[[nodiscard]] std::string job_use_document(const Answer& stats, const Answer& jobs);

[[nodiscard]] ListView node_use_view();
[[nodiscard]] ListView job_use_view();

}  // namespace divvy::cli
