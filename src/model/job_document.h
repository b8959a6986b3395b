// A job as JSON: what the job file has, what the API takes and shows, and what the store keeps are
// one document, so that a field is added in one place. Fields carry the names of JobSpec; they are
// added, never renamed or taken away. Pure, callable from any thread; any bytes are safe to pass.
// The library behind it (Boost.JSON) stays inside job_document.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::model {

// Every field, also those that were left to their defaults: what was submitted means the same when
// a default changes.
[[nodiscard]] std::string write_job_spec(const JobSpec& spec);

// What is missing gets its default. The error names the field ("container.ports[0].host: ...");
// a field that there is not is refused, with the one that was probably meant. What is well formed
// and yet cannot be right is for check() to refuse.
[[nodiscard]] Result<JobSpec> read_job_spec(std::string_view json);

}  // namespace divvy::model
