// Processes that this program starts for a member and that outlive it: the shepherd and the relay.
// Callable from any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "run/member_folder.h"

namespace divvy::run {

// `what` is for messages, and for the name of its log in the folder. The words are a program with
// what it is called with before the folder ("/proc/self/exe" is this one). It has the descriptor
// kShepherdChannel (run/shepherd.h), and waits until kShepherdReady was written there; and
// `secrets`, where that is one, as kShepherdSecrets. The process that is started here forks the one
// that stays, and ends at once.
[[nodiscard]] Status start_detached(const std::string& what, std::vector<std::string> words,
                                    const MemberFolder& folder, std::chrono::seconds patience,
                                    const UniqueFd& secrets = UniqueFd());

}  // namespace divvy::run
