// Starts one program the way a member's programs are started: as the job's user, in the member's
// control group, with the given streams, limits and environment and nothing else of ours. For a
// process with one thread (a shepherd).
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/job_spec.h"
#include "sys/user_namespace.h"

namespace divvy::run {

struct ChildPlan {
  std::vector<std::string>
      words;  // the program, looked for in PATH of `environment`, and arguments
  std::map<std::string, std::string> environment;
  std::string working_directory;  // empty: "/"
  // Nothing is changed where this process is that user already.
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::map<std::string, model::Ulimit> ulimits;
  std::vector<std::string> cgroup_procs;  // files into which it writes itself
  int input = -1;                         // -1: /dev/null
  int output = -1;
  int error = -1;
  int terminal = -1;  // instead of the three: the child's end of a terminal, which becomes its own
  // Where it goes once it is the user, to be root there; none: it stays outside.
  std::shared_ptr<const sys::UserNamespace> inside;
  std::shared_ptr<const UniqueFd> kept;  // stays open in it, as kKeptDescriptor
  bool dies_with_us = true;
};

inline constexpr int kKeptDescriptor = 3;

// How a start failed, as a shell would say it.
struct ChildFailure {
  int exit_code = 126;  // 127: there is no such program
  std::string message;
};

// Returns when the program runs, or could not be made to.
[[nodiscard]] tl::expected<pid_t, ChildFailure> start_child(const ChildPlan& plan);

// The names that `ulimit -a` and podman have: "nofile", "memlock", ... kInvalidArgument: another
// one.
[[nodiscard]] Result<int> ulimit_number(const std::string& name);
// kPermissionDenied with the remedy: one of them is above this process's own, which a process of
// another user than root cannot have.
[[nodiscard]] Status check_ulimits(const std::map<std::string, model::Ulimit>& ulimits);
// Why this limit cannot be had where the daemon's own is `own`, and what to do.
[[nodiscard]] std::string ulimit_refusal(const std::string& name, const model::Ulimit& limit,
                                         std::uint64_t own);

// What this user finds at the path, as a descriptor with which nothing but the place is named
// (O_PATH). Opened in a process of that user, so that every link and folder on the way counts as it
// does for them. kPermissionDenied: they cannot reach it.
[[nodiscard]] Result<UniqueFd> open_as(const ChildPlan& user, const std::string& path);

}  // namespace divvy::run
