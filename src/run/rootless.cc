#include "run/rootless.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "base/text.h"
#include "run/child.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRootsRunFolder = "/run/divvy/users";

bool is_program(const std::string& name, const MachineFiles& files) {
  const auto runs = [](const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 0111U) != 0;
  };
  if (name.find('/') != std::string::npos) return runs(name);
  return std::ranges::any_of(split(files.path, ':'), [&](std::string_view folder) {
    return runs(fmt::format("{}/{}", folder, name));
  });
}

Status check_podman(const PodmanSettings& settings, const MachineFiles& files) {
  if (!settings.program.empty() && is_program(settings.program[0], files)) return {};
  return err(ErrorCode::kFailedPrecondition,
             "containers need podman, and this machine has none at {}; install the package podman, "
             "or name the program with containers.podman in the configuration",
             settings.program.empty() ? "all" : settings.program[0]);
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  return stream >> value ? std::optional(value) : std::nullopt;
}

Status check_kernel(const MachineFiles& files) {
  const auto refuse = [](std::string_view setting, std::string_view remedy) {
    return err(ErrorCode::kFailedPrecondition,
               "containers need user namespaces, which {} forbids on this machine; {}", setting,
               remedy);
  };
  if (number_in(files.sysctl / "user/max_user_namespaces") == 0) {
    return refuse("user.max_user_namespaces=0",
                  "an administrator allows them with `sysctl user.max_user_namespaces=15000`");
  }
  if (number_in(files.sysctl / "kernel/unprivileged_userns_clone") == 0) {
    return refuse("kernel.unprivileged_userns_clone=0",
                  "an administrator allows them with `sysctl kernel.unprivileged_userns_clone=1`");
  }
  if (number_in(files.sysctl / "kernel/apparmor_restrict_unprivileged_userns").value_or(0) != 0) {
    std::string profile;
    std::ifstream(files.apparmor) >> profile;
    if (profile.empty() || profile == "unconfined") {
      return refuse("kernel.apparmor_restrict_unprivileged_userns=1",
                    "an administrator gives divvyd an AppArmor profile with `userns` "
                    "(docs/containers.md), or sets it to 0 with sysctl");
    }
  }
  return {};
}

// The first number that no range of this file has, for whoever adds one.
std::uint64_t free_from(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t next = 100'000;
  for (std::string line; std::getline(stream, line);) {
    const auto words = split(line, ':');
    if (words.size() != 3) continue;
    const auto range = sys::parse_subordinate_ids(line, words[0], 0);
    for (const sys::IdRange& each : range)
      next = std::max(next, std::uint64_t{each.first} + each.count);
  }
  return next;
}

Status check_ranges(const MachineUser& user, const sys::NamespaceUser& found,
                    const MachineFiles& files) {
  if (!found.uids.empty() && !found.gids.empty()) return {};
  constexpr std::uint64_t kUsual = 65'536;
  const std::uint64_t from = std::max(free_from(files.subuid), free_from(files.subgid));
  return err(ErrorCode::kFailedPrecondition,
             "{} has no range of numbers in {}, which containers need; an administrator gives one "
             "with `usermod --add-subuids {}-{} --add-subgids {}-{} {}`",
             user.account.name, found.uids.empty() ? files.subuid.string() : files.subgid.string(),
             from, from + kUsual - 1, from, from + kUsual - 1, user.account.name);
}

bool can_write(const MachineUser& user, const struct stat& folder) {
  constexpr unsigned kWriteAndEnter = 03;
  const unsigned mode = folder.st_mode;
  if (folder.st_uid == user.uid) return (mode >> 6U & kWriteAndEnter) == kWriteAndEnter;
  if (folder.st_gid == user.gid || std::ranges::count(user.groups, folder.st_gid) > 0) {
    return (mode >> 3U & kWriteAndEnter) == kWriteAndEnter;
  }
  return (mode & kWriteAndEnter) == kWriteAndEnter;
}

Status check_home(const MachineUser& user) {
  struct stat info{};
  const std::string& home = user.account.home;
  if (home.starts_with('/') && ::stat(home.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
      can_write(user, info)) {
    return {};
  }
  return err(ErrorCode::kFailedPrecondition,
             "images of containers are kept in the user's home, and {} cannot write to {}; an "
             "administrator names a folder for them with containers.storage in the configuration",
             user.account.name, home.empty() ? "any" : home);
}

// A folder of the user's in one of root's, where the user cannot put another in its place.
Status make_users_folder(const std::string& parent, const MachineUser& user) {
  const auto failed = [&](std::string_view what) {
    return err(ErrorCode::kIo, "no folder for the containers of {} in {}: {}: {}",
               user.account.name, parent, what, std::strerror(errno));
  };
  if (::mkdir(parent.c_str(), 0711) == 0) {
    (void)::chmod(parent.c_str(), 0711);  // whatever the umask
  } else if (errno != EEXIST) {
    return failed("mkdir");
  }
  const UniqueFd above(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (!above || ::fstat(above.get(), &info) != 0) return failed("open");
  if (info.st_uid != ::geteuid() || (info.st_mode & 022U) != 0) {
    return err(ErrorCode::kPermissionDenied,
               "{} has to be root's and writable for nobody else, or users could put something in "
               "each other's place",
               parent);
  }
  const std::string name = fmt::to_string(user.uid);
  if (::mkdirat(above.get(), name.c_str(), 0700) != 0 && errno != EEXIST) return failed("mkdir");
  const UniqueFd own(
      ::openat(above.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!own || ::fstat(own.get(), &info) != 0) return failed("open");
  if (info.st_uid == user.uid) return {};
  if (::fchownat(own.get(), "", user.uid, user.gid, AT_EMPTY_PATH) != 0) return failed("chown");
  return {};
}

// Podman writes down where its runtime folder is and refuses another one, so daemons with other
// run folders have images of their own.
std::string storage_of(const MachineUser& user, const PodmanSettings& settings) {
  if (!settings.storage.empty()) return fmt::format("{}/{}", settings.storage, user.uid);
  std::string folder = user.account.home + "/.local/share/divvy/containers";
  if (settings.run_folder != kRootsRunFolder) {
    for (const char c : settings.run_folder) folder += c == '/' ? '-' : c;
  }
  return folder;
}

bool has_file(const MachineUser& user, const std::string& path) {
  ChildPlan as_user;
  as_user.uid = user.uid;
  as_user.gid = user.gid;
  as_user.groups = user.groups;
  return open_as(as_user, path).has_value();
}

}  // namespace

Result<sys::NamespaceUser> rootless_user(const MachineUser& user, const PodmanSettings& settings,
                                         const MachineFiles& files) {
  DIVVY_RETURN_IF_ERROR(check_podman(settings, files));
  DIVVY_RETURN_IF_ERROR(check_kernel(files));
  sys::NamespaceUser found;
  found.uid = user.uid;
  found.gid = user.gid;
  found.groups = user.groups;
  found.uids = sys::read_subordinate_ids(files.subuid, user.account.name, user.uid);
  found.gids = sys::read_subordinate_ids(files.subgid, user.account.name, user.uid);
  DIVVY_RETURN_IF_ERROR(check_ranges(user, found, files));
  if (settings.storage.empty()) DIVVY_RETURN_IF_ERROR(check_home(user));
  return found;
}

Result<RootlessPodman> rootless_podman(const MachineUser& user, const PodmanSettings& settings,
                                       const MachineFiles& files) {
  DIVVY_RETURN_IF_ERROR(make_users_folder(settings.run_folder, user));
  if (!settings.storage.empty()) DIVVY_RETURN_IF_ERROR(make_users_folder(settings.storage, user));
  const std::string runtime = fmt::format("{}/{}", settings.run_folder, user.uid);
  const std::string storage = storage_of(user, settings);
  RootlessPodman podman;
  podman.program = settings.program;
  podman.program.insert(
      podman.program.end(),
      {"--root", storage, "--runroot", runtime + "/containers", "--tmpdir", runtime + "/libpod",
       "--cgroup-manager", "cgroupfs", "--events-backend", "none"});
  // Images that the user has pulled or built in a shell are there for jobs too, as far as podman
  // can share them: with the driver overlay.
  const std::string own = user.account.home + "/.local/share/containers/storage";
  if (has_file(user, own + "/overlay-images/images.lock") &&
      !has_file(user, storage + "/vfs-images")) {
    podman.program.insert(podman.program.end(), {"--storage-opt", "additionalimagestore=" + own});
  }
  podman.environment = {
      {"PATH", files.path},
      {"HOME", user.account.home},
      {"USER", user.account.name},
      {"LOGNAME", user.account.name},
      {"XDG_RUNTIME_DIR", runtime},
      // What podman leaves to itself when it has made the namespace: that there is one, and whose.
      {"_CONTAINERS_USERNS_CONFIGURED", "done"},
      {"_CONTAINERS_ROOTLESS_UID", fmt::to_string(user.uid)},
      {"_CONTAINERS_ROOTLESS_GID", fmt::to_string(user.gid)},
  };
  return podman;
}

Status check_container(const MachineUser& user, const model::ContainerSpec& container,
                       const PodmanSettings& settings, const DaemonRights& daemon,
                       const MachineFiles& files) {
  DIVVY_RETURN_IF_ERROR(check_podman(settings, files));
  const bool of_root = daemon.uid == 0 && (user.uid == 0 || !settings.per_user);
  if (of_root && !daemon.keeps_privileges) {
    return err(ErrorCode::kFailedPrecondition,
               "containers of {} are run by root's podman, which needs more privileges than divvyd "
               "keeps; {}an administrator lets it keep them with `privileges: {{drop: false}}` in "
               "the configuration (docs/operations.md)",
               user.account.name, user.uid == 0 ? "submit as another user, or " : "");
  }
  if (of_root || daemon.uid != 0) return {};
  DIVVY_RETURN_IF_ERROR(rootless_user(user, settings, files));
  if (!container.ports.empty() && !is_program("slirp4netns", files) &&
      !is_program("pasta", files)) {
    return err(ErrorCode::kFailedPrecondition,
               "container.ports: ports of a user's container are published by slirp4netns or "
               "pasta, and this machine has neither; install the package slirp4netns or passt");
  }
  const std::uint64_t first =
      number_in(files.sysctl / "net/ipv4/ip_unprivileged_port_start").value_or(1024);
  for (const model::PublishedPort& port : container.ports) {
    if (port.host >= first) continue;
    return err(ErrorCode::kFailedPrecondition,
               "container.ports: {} is a port of root's; take one from {} on", port.host, first);
  }
  return {};
}

}  // namespace divvy::run
