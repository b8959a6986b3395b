// A tenant in mode mps and the MPS daemon of its GPU (share/mps.h): what Tenants calls when such a
// tenant comes, when the last one has left, and to tell the tenant's programs of the daemon.
#pragma once

#include <map>
#include <string>

#include "ledger/tenant_record.h"
#include "share/mps.h"

namespace divvy::share {

// Starts the daemon for the first tenant of its GPU and returns when it answers. A tenant with
// slices on several GPUs is refused, because a program can reach only one MPS daemon.
[[nodiscard]] Status enter_mps(Mps& mps, const ledger::TenantRecord& record);
// After the last tenant of the mode has left the GPU. Returns at once.
void leave_mps(Mps& mps, const ledger::TenantRecord& record);

// "CUDA_MPS_PIPE_DIRECTORY" and "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" for programs of this machine.
// The record has passed enter_mps().
[[nodiscard]] std::map<std::string, std::string> mps_environment(
    const Mps& mps, const ledger::TenantRecord& record);

}  // namespace divvy::share
