#include "base/trusted_path.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "base/unique_fd.h"

namespace divvy {
namespace {

namespace fs = std::filesystem;

// As many as the kernel follows.
constexpr int kMostLinks = 40;

Status check_owner(const struct stat& status, const fs::path& path) {
  if (status.st_uid == 0 || status.st_uid == ::geteuid()) return {};
  return err(ErrorCode::kPermissionDenied, "{} belongs to user {}", path.string(), status.st_uid);
}

bool others_may_write(const struct stat& status) {
  if ((status.st_mode & S_IWOTH) != 0) return true;
  // A user's private group, where user and group have the same number, has nobody else in it.
  const bool own_group = status.st_gid == ::getegid() && ::getegid() == ::geteuid();
  return (status.st_mode & S_IWGRP) != 0 && !own_group;
}

Status check_folder(const struct stat& status, const fs::path& path, bool last) {
  DIVVY_RETURN_IF_ERROR(check_owner(status, path));
  if (!others_may_write(status) || (!last && (status.st_mode & S_ISVTX) != 0)) return {};
  return err(ErrorCode::kPermissionDenied, "{} can be changed by other users", path.string());
}

Error not_opened(const fs::path& path) {
  const ErrorCode code = errno == ENOENT   ? ErrorCode::kNotFound
                         : errno == EACCES ? ErrorCode::kPermissionDenied
                                           : ErrorCode::kIo;
  return {code, fmt::format("{}: {}", path.string(), std::strerror(errno))};
}

}  // namespace

Status check_trusted_folder(const fs::path& folder) {
  std::error_code code;
  const fs::path whole = fs::absolute(folder, code);
  if (code) return err(ErrorCode::kIo, "{}: {}", folder.string(), code.message());
  std::deque<fs::path> left(whole.begin(), whole.end());
  UniqueFd at;
  fs::path path;
  int links = 0;
  while (!left.empty()) {
    const fs::path part = std::move(left.front());
    left.pop_front();
    if (part.empty() || part == ".") continue;
    const bool root = part == "/";
    path = root ? part : path / part;
    UniqueFd next(
        ::openat(root ? AT_FDCWD : at.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status{};
    if (!next || ::fstat(next.get(), &status) != 0) return err(not_opened(path));
    if (S_ISLNK(status.st_mode)) {
      DIVVY_RETURN_IF_ERROR(check_owner(status, path));
      char text[PATH_MAX] = {};
      if (++links > kMostLinks || ::readlinkat(next.get(), "", text, sizeof text - 1) < 0) {
        return err(ErrorCode::kIo, "{} leads nowhere", path.string());
      }
      const fs::path target = text;
      left.insert(left.begin(), target.begin(), target.end());
      path = path.parent_path();
      continue;
    }
    if (!S_ISDIR(status.st_mode)) {
      return err(ErrorCode::kNotFound, "{} is no folder", path.string());
    }
    DIVVY_RETURN_IF_ERROR(check_folder(status, path, left.empty()));
    at = std::move(next);
  }
  return {};
}

}  // namespace divvy
