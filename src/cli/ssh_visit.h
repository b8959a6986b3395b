// One connection of ssh to a member: on this process's input and output, to an sshd that is
// executed there. Runs on the main thread.
#pragma once

#include <optional>
#include <string>

#include "cli/member_place.h"
#include "cli/ssh_keys.h"

namespace divvy::cli {

struct Session;

// `user`: who wants to log in. The exit status.
[[nodiscard]] int serve_ssh(const Session& session, const MemberPlace& place,
                            const SshKeys::Handover& keys, const std::string& user);

// The user of the job, by its name in there; nothing: it cannot be said. The error is an exit
// status, and what went wrong was said.
[[nodiscard]] tl::expected<std::optional<std::string>, int> user_in_member(
    const Session& session, const MemberPlace& place);

}  // namespace divvy::cli
