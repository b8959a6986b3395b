// The JOB of a command line: a number, or a name. Runs on the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace divvy::cli {

struct Session;

enum class JobMeant {
  kNewest,     // Of several with the name, the one that was submitted last: for looking
  kOnly,       // One that has not ended, and there are not two of them: for changing
  kOnlyArray,  // The same, but several tasks of one array may have the name
};

// The number of the job, or the exit status after standard error was told.
[[nodiscard]] tl::expected<std::uint64_t, int> find_job(const Session& session,
                                                        const std::string& typed, JobMeant meant);

}  // namespace divvy::cli
