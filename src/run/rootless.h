// Podman of the job's own user, as root's daemon starts it: in a namespace of the user's
// (sys/user_namespace.h), with images in the user's home and a runtime folder that the shepherd
// makes. Nothing that podman does has more rights than the user has.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/job_spec.h"
#include "run/member_documents.h"
#include "run/users.h"
#include "sys/user_namespace.h"

namespace divvy::run {

// Where the machine says what it allows; other places in tests.
struct MachineFiles {
  std::filesystem::path subuid = "/etc/subuid";
  std::filesystem::path subgid = "/etc/subgid";
  std::filesystem::path sysctl = "/proc/sys";
  // Of this process; "unconfined" where nothing is confined.
  std::filesystem::path apparmor = "/proc/self/attr/apparmor/current";
  std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
};

// What a user needs for containers here. kFailedPrecondition: they cannot have any, in one sentence
// with what to do about it. Reads files and looks programs up; callable from any thread.
[[nodiscard]] Result<sys::NamespaceUser> rootless_user(const MachineUser& user,
                                                       const PodmanSettings& settings,
                                                       const MachineFiles& files = {});

// Podman's words and variables for the user, whose runtime folder is made where it is not there
// yet. For a shepherd: the daemon's own process may not do all of it.
struct RootlessPodman {
  std::vector<std::string> program;
  std::map<std::string, std::string> environment;
};
[[nodiscard]] Result<RootlessPodman> rootless_podman(const MachineUser& user,
                                                     const PodmanSettings& settings,
                                                     const MachineFiles& files = {});

// What the daemon itself may do.
struct DaemonRights {
  uid_t uid = 0;
  bool keeps_privileges = false;  // all of root's, which root's podman needs
};
// Whether a member of this user can be in this container at all, before a job is accepted.
// kFailedPrecondition: no, and what to do about it. Callable from any thread.
[[nodiscard]] Status check_container(const MachineUser& user, const model::ContainerSpec& container,
                                     const PodmanSettings& settings, const DaemonRights& daemon,
                                     const MachineFiles& files = {});

}  // namespace divvy::run
