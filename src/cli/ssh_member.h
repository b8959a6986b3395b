// What is executed in a member for one connection of ssh: a shell that starts an sshd on its own
// input and output. It needs sshd and a shell there, no port, no service and no key: those come as
// the first lines of its input, and are in a folder of that user's until the connection has ended.
// A login has the environment of the job, and with it the slice. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/ssh_keys.h"

namespace divvy::cli {

// `user`: who wants to log in; anybody but the job's own user is told who that is. Empty: not
// known.
[[nodiscard]] std::vector<std::string> sshd_command(const std::string& user);
[[nodiscard]] std::string sshd_first_input(const SshKeys::Handover& keys);

}  // namespace divvy::cli
