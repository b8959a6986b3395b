// What root's podman mounts into a container of another user. A path that a user has named can be
// made to lead elsewhere at any time, so root never follows one: each is opened by a process of the
// user's, and what came of it is mounted from the descriptor to a place that is root's alone, which
// is the path that podman is told.
//
// The places are in a mount namespace of this process and of what it starts from then on: nobody
// else sees them, and they go with the last of these. For a process with one thread (a shepherd).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/job_spec.h"
#include "run/child.h"
#include "run/member_folder.h"

namespace divvy::run {

// The same mounts with sources in the member's folder. kPermissionDenied: the user cannot reach
// one of them.
[[nodiscard]] Result<std::vector<model::Mount>> stage_mounts(
    const MemberFolder& folder, const ChildPlan& user, const std::vector<model::Mount>& mounts);

}  // namespace divvy::run
