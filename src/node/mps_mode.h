// Lets tenants in mode mps use the MPS daemons of node/mps.h: what Tenants calls when such a tenant
// comes and when the last one has left. The first tenant of a GPU waits here until its daemon has
// started; nobody else does.
#pragma once

#include "node/mps.h"
#include "node/tenants.h"

namespace divvy::node {

// Both refer to `mps`, which outlives them. A tenant with slices on several GPUs is refused,
// because a program can reach only one MPS daemon.
[[nodiscard]] PrepareMode prepare_mps(Mps& mps);
[[nodiscard]] LeaveMode leave_mps(Mps& mps);

}  // namespace divvy::node
