// The end of a member whose shepherd is gone without a last word: everything of it that still runs
// is killed, its container and control groups are removed, and the last word is written in the
// shepherd's place. Called by the daemon, from any thread; waits for processes to die.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "run/member_folder.h"

namespace divvy::run {

// Only by whoever holds the folder's lock. kUnavailable: something does not die (a process that the
// driver holds, say), and there is no last word yet; try again later.
[[nodiscard]] Result<Ending> end_lost_member(const MemberFolder& folder,
                                             const std::vector<std::string>& remover, WallTime now);

}  // namespace divvy::run
