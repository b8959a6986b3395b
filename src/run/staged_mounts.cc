#include "run/staged_mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace divvy::run {
namespace {

constexpr const char* kPlaces = "mounts";

Error failed(std::string_view what) {
  return {ErrorCode::kIo, fmt::format("container.mounts: {}: {}", what, std::strerror(errno))};
}

// What others mount from now on is seen here, and what is mounted here by nobody else.
Status enter_own_namespace() {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return err(failed("no mount namespace"));
  }
  return {};
}

// An empty folder or file for something of the same kind to be mounted on.
Status make_place(int places, const std::string& name, bool is_folder) {
  const bool made =
      is_folder
          ? ::mkdirat(places, name.c_str(), 0700) == 0
          : static_cast<bool>(UniqueFd(::openat(
                places, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)));
  if (!made) return err(failed("no place for " + name));
  return {};
}

}  // namespace

Result<std::vector<model::Mount>> stage_mounts(const MemberFolder& folder, const ChildPlan& user,
                                               const std::vector<model::Mount>& mounts) {
  if (mounts.empty()) return mounts;
  // First: a descriptor can be mounted only in the namespace that it was opened in.
  DIVVY_RETURN_IF_ERROR(enter_own_namespace());
  if (::mkdirat(folder.fd(), kPlaces, 0700) != 0) return err(failed(kPlaces));
  const UniqueFd places(
      ::openat(folder.fd(), kPlaces, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  std::vector<model::Mount> staged = mounts;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    const auto source = open_as(user, staged[i].source);
    if (!source) {
      return err(ErrorCode::kPermissionDenied,
                 "container.mounts: user {} cannot reach {}, or it is not there", user.uid,
                 staged[i].source);
    }
    struct stat status{};
    if (::fstat(source->get(), &status) != 0) return err(failed(staged[i].source));
    const std::string name = fmt::to_string(i);
    DIVVY_RETURN_IF_ERROR(make_place(places.get(), name, S_ISDIR(status.st_mode)));
    const std::string from = fmt::format("/proc/self/fd/{}", source->get());
    const std::string place = (folder.path() / kPlaces / name).string();
    if (::mount(from.c_str(), place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      return err(failed(staged[i].source));
    }
    staged[i].source = place;
  }
  return staged;
}

}  // namespace divvy::run
