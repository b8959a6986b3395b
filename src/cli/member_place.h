// Which member of which job.
#pragma once

#include <cstdint>

namespace divvy::cli {

struct MemberPlace {
  std::uint64_t job = 0;
  std::uint32_t rank = 0;
};

}  // namespace divvy::cli
