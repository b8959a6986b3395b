// Other processes of this machine, as the daemon needs to know them: a descriptor that tells when
// one is gone, and the moment of its birth, which together with its number names it for good.
// Callable from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

// A process for as long as this machine is up: the number alone may be given to another one.
struct ProcessName {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // Since boot, as the kernel counts
  friend bool operator==(const ProcessName&, const ProcessName&) = default;
};

// Who is at the other end of a Unix socket, as the kernel vouches.
struct Peer {
  pid_t pid = 0;  // 0 where the process is in a namespace that we cannot see into
  uid_t uid = 0;
  gid_t gid = 0;
};
[[nodiscard]] Result<Peer> peer_of(int socket);

// Becomes readable when the process is gone. kNotFound when it is gone already.
[[nodiscard]] Result<UniqueFd> open_process(pid_t pid);
// As open_process, but only for exactly this process.
[[nodiscard]] Result<UniqueFd> open_process(const ProcessName& name);
// Does this descriptor of open_process say that its process is gone?
[[nodiscard]] bool is_gone(int process);

// Nothing when there is no such process.
[[nodiscard]] std::optional<std::uint64_t> start_ticks(pid_t pid);
// The real uid that owns the process.
[[nodiscard]] std::optional<uid_t> owner_of(pid_t pid);

// Different after every boot.
[[nodiscard]] std::string boot_id();

// "alice", or the number where it has no name.
[[nodiscard]] std::string user_name(uid_t uid);
// The number of a group by its name, or by its number in digits.
[[nodiscard]] std::optional<gid_t> group_id(const std::string& name);

}  // namespace divvy::sys
