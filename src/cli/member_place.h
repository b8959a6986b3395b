// Which member of which job.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace divvy::cli {

struct Session;

struct MemberPlace {
  std::uint64_t job = 0;
  std::uint32_t rank = 0;
};

// The one that runs, of a job by its number or name. What went wrong was said; the error is the
// exit status.
[[nodiscard]] tl::expected<MemberPlace, int> find_member(const Session& session,
                                                         const std::string& job,
                                                         std::uint32_t rank);

}  // namespace divvy::cli
