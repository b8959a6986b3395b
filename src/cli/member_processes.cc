#include "cli/member_processes.h"

#include <algorithm>

#include "base/units.h"

namespace divvy::cli {

Result<std::uint32_t> processes_of_member(const std::optional<std::string>& gpu,
                                          const std::optional<std::uint32_t>& processes) {
  constexpr std::uint32_t kWholeGpu = 1000;
  if (processes) {
    if (*processes > 0) return *processes;
    return err(ErrorCode::kInvalidArgument, "--processes: a member has one at least");
  }
  if (!gpu) return 1;
  DIVVY_TRY(share, with_context(parse_share(*gpu), "--gpu"));
  return std::max<std::uint32_t>(1, (share.thousandths() + kWholeGpu - 1) / kWholeGpu);
}

}  // namespace divvy::cli
