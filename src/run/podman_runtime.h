// Members in containers: the command lines with which a shepherd has podman start, signal, enter
// and remove one. Pure functions, callable from any thread; nothing here runs anything.
//
// Podman gives the devices (CDI); the image needs to know nothing of Divvy. The member in it is the
// job's user, whoever podman's own is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "run/launch_environment.h"
#include "run/member_documents.h"

namespace divvy::run {

using Words = std::vector<std::string>;

// Whose process podman is.
enum class PodmanUser {
  kRoot,    // root's, also for members of others
  kDaemon,  // a daemon's that is not root's: the member's too, because there is nobody else
  kMember,  // the member's, in a user namespace that root's shepherd made (run/rootless.h)
};

// What podman knows a member by.
struct PodmanMember {
  PodmanSettings settings;
  std::string name;  // one that nobody else on this machine uses
  PodmanUser user = PodmanUser::kRoot;
  // kMember: how many numbers from 1 on there are in the namespace.
  std::uint32_t uids = 0;
  std::uint32_t gids = 0;
};

// Variables on their way into a container. A command line is for everybody to read, a file is not,
// so all go into a file but those that the file's form cannot hold.
struct ContainerVariables {
  std::string file;  // NAME=value lines
  Words options;     // "--env", "NAME=value", ...
};
[[nodiscard]] Result<ContainerVariables> container_variables(const Environment& environment);
// Those that nobody else is to see, as lines of that file. kInvalidArgument: it cannot hold one.
[[nodiscard]] Result<std::string> secret_variables(const Environment& secrets);

// Refused: what podman would take for something else, like a comma in the path of a mount; and,
// where podman is root's and the member is not, an image that root would read from a file or
// another daemon. Limits on memory, CPU and processes are podman's to hold, except with kMember,
// who may not: there the member's control group holds them.
[[nodiscard]] Result<Words> podman_run(const PodmanMember& podman, const MemberStart& member,
                                       const ContainerVariables& variables,
                                       const std::string& variables_path);

// Where a port of the member is on this machine: a published one where it was published, and where
// the member has the machine's network the port itself. kFailedPrecondition: it cannot be reached.
[[nodiscard]] Result<std::uint16_t> port_on_machine(const Orders& orders, std::uint16_t port);

struct ContainerExec {
  Words command;
  Environment environment;
  std::string working_directory;
  bool terminal = false;
};
[[nodiscard]] Words podman_exec(const PodmanMember& podman, const ContainerExec& exec);

[[nodiscard]] Words podman_unpause(const PodmanMember& podman);
// Prints "true" when the kernel has ended it because its memory ran out.
[[nodiscard]] Words podman_ask_out_of_memory(const PodmanMember& podman);
// Ends it where it runs, and leaves nothing of it. No error where there is none.
[[nodiscard]] Words podman_remove(const PodmanMember& podman);

}  // namespace divvy::run
