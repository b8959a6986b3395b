// Lets tenants in mode mps use the MPS daemons of share/mps.h: what Tenants calls when such a
// tenant comes and when the last one has left. The first tenant of a GPU waits here until its
// daemon has started; nobody else does.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ledger/tenant_record.h"
#include "share/mps.h"

namespace divvy::share {

// Called for each tenant in mode mps that comes; gives the environment that its programs need
// besides. May take its time: no lock is held.
using PrepareMode =
    std::function<Result<std::map<std::string, std::string>>(const ledger::TenantRecord& record)>;
// Called after the last tenant of the mode has left a GPU. Returns at once: a lock is held.
using LeaveMode = std::function<void(const ledger::TenantRecord& record)>;

// Both refer to `mps`, which outlives them. A tenant with slices on several GPUs is refused,
// because a program can reach only one MPS daemon.
[[nodiscard]] PrepareMode prepare_mps(Mps& mps);
[[nodiscard]] LeaveMode leave_mps(Mps& mps);

}  // namespace divvy::share
