// The TCP ports that Divvy proposes to members of jobs: the one with rank r listens at the first
// port + r. Pure, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/job_spec.h"

namespace divvy::model {

// Spread over a range that nobody is given by chance: below the ports that the kernel hands out.
// The same for all members, on all nodes. Another process may listen there all the same.
[[nodiscard]] constexpr std::uint16_t first_port(JobId job, std::uint32_t attempt,
                                                 std::size_t members) {
  constexpr std::uint16_t kLowest = 20'000;
  constexpr std::uint16_t kPorts = 12'000;
  const std::uint64_t room = members < kPorts ? kPorts - members : 1;
  // A prime step, so that jobs with neighbouring numbers do not get neighbouring ports, which their
  // members would share.
  const std::uint64_t step = job.value() * 4'093 + std::uint64_t{attempt} * 131;
  return static_cast<std::uint16_t>(kLowest + step % room);
}

}  // namespace divvy::model
