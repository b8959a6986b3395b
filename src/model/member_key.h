// The name of one member of one attempt of a job: what its folder, its slice and its control group
// are called, so that after a crash everything that belongs together is found by name. A value.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::model {

struct MemberKey {
  JobId job;
  std::uint32_t attempt = 0;
  std::uint32_t rank = 0;
  friend auto operator<=>(const MemberKey&, const MemberKey&) = default;
};

// "job-7.1.0": job 7, attempt 1, rank 0. Safe in a path.
[[nodiscard]] std::string to_string(const MemberKey& key);
// Only exactly what to_string gives: "job-07.1.0" is nobody.
[[nodiscard]] Result<MemberKey> parse_member_key(std::string_view text);

}  // namespace divvy::model
