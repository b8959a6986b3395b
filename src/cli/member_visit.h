// What exec, attach and cp do in a member, through the daemon, wherever the member is. Runs on the
// main thread; signals that are to be passed on are polled for meanwhile.
#pragma once

#include <string>
#include <vector>

#include "cli/member_stream.h"

namespace divvy::cli {

struct ExecWish {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=VALUE, beside the member's
  std::string folder;                    // empty: the member's
  bool terminal = false;
};

// The exit status of the command, as a shell has it.
[[nodiscard]] int exec_in_member(const Session& session, const MemberPlace& place,
                                 const ExecWish& wish);
// Ctrl-C ends the looking, never the job. `input`: what is typed goes to the job.
[[nodiscard]] int attach_to_member(const Session& session, const MemberPlace& place, bool input);
// What is said when the connection has been away for a while, and when it is back.
void say_loss(const Session& session, bool lost, bool raw);
// Between a path here and one in the member; a folder with all that is in it.
[[nodiscard]] int copy_from_member(const Session& session, const MemberPlace& place,
                                   const std::string& from, const std::string& to);
[[nodiscard]] int copy_to_member(const Session& session, const MemberPlace& place,
                                 const std::string& from, const std::string& to);

}  // namespace divvy::cli
