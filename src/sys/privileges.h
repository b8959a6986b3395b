// What root's daemon keeps of root's powers, and how it gives up the rest. docs/operations.md says
// what each of them is for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::sys {

// Used by the daemon itself: CapEff of /proc/PID/status.
//   CHOWN       a tenant's socket is given to the tenant's user
//   KILL        the tenants of a failing GPU are ended, where the operator wants that
//   SYS_PTRACE  /proc/PID/maps of other users' processes tells whether one has replaced itself
constexpr std::string_view kUsedCapabilities[] = {"CHOWN", "KILL", "SYS_PTRACE"};

// Only passed on to MPS, whose daemon starts a server under each tenant's user: in CapPrm and
// CapBnd, not in CapEff.
constexpr std::string_view kPassedCapabilities[] = {"DAC_OVERRIDE", "SETGID", "SETUID"};

// The bits of /proc/PID/status. Names without CAP_, all of which exist.
[[nodiscard]] std::uint64_t capability_bits(std::span<const std::string_view> names);

// Gives up every capability of this thread but those above and `keep`, and forbids this process and
// what it starts ever to gain others (no_new_privs). Threads made later have the same. Where the
// process has less already it stays so; without any (not root) it does nothing.
[[nodiscard]] Status drop_privileges(std::span<const std::string> keep);

// Gives up those above: for a process of the daemon that only asks the driver, and may need what
// the operator keeps for that. Before its first thread.
void drop_own_privileges();

// Gives up everything. Only system calls: for a process that was forked from one with threads.
void drop_all_privileges();

}  // namespace divvy::sys
