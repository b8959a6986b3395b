// What exec, attach and cp do at the door of a member on this machine. Runs on the main thread;
// signals that are to be passed on are polled for meanwhile.
#pragma once

#include <string>

#include "base/result.h"
#include "run/door_client.h"

namespace divvy::cli {

struct Session;

struct MemberPlace {
  std::uint64_t job = 0;
  std::uint32_t rank = 0;
  std::string folder;
};

// The exit status of the command, as a shell has it.
[[nodiscard]] int exec_in_member(const Session& session, const MemberPlace& place,
                                 const run::ExecRequest& request, bool terminal);
// Ctrl-C ends the looking, never the job. `input`: what is typed goes to the job.
[[nodiscard]] int attach_to_member(const Session& session, const MemberPlace& place, bool input);
// Between a path here and one in the member; a folder with all that is in it.
[[nodiscard]] int copy_from_member(const Session& session, const MemberPlace& place,
                                   const std::string& from, const std::string& to);
[[nodiscard]] int copy_to_member(const Session& session, const MemberPlace& place,
                                 const std::string& from, const std::string& to);

}  // namespace divvy::cli
