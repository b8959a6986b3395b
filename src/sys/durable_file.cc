#include "sys/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace divvy::sys {
namespace {

Error io_error(std::string_view name, std::string_view what) {
  const int reason = errno;
  return {ErrorCode::kIo, fmt::format("{} could not be {}: {}", name, what, std::strerror(reason))};
}

std::string draft_of(const std::string& name) { return name + ".new"; }

Status replace(int folder, const std::string& name, std::string_view bytes, bool durable) {
  const std::string draft = draft_of(name);
  // Not cut before it is written: the room that was reserved is used again in place.
  const UniqueFd fd(
      ::openat(folder, draft.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return err(io_error(draft, "made"));
  if (!write_all(fd.get(), bytes) || ::ftruncate(fd.get(), static_cast<off_t>(bytes.size())) != 0 ||
      (durable && ::fsync(fd.get()) != 0)) {
    return err(io_error(draft, "written"));
  }
  if (::renameat(folder, draft.c_str(), folder, name.c_str()) != 0 ||
      (durable && ::fsync(folder) != 0)) {
    return err(io_error(name, "put in its place"));
  }
  return {};
}

}  // namespace

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Status reserve_room(int folder, const std::string& name, std::size_t bytes) {
  const std::string draft = draft_of(name);
  const UniqueFd fd(
      ::openat(folder, draft.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return err(io_error(draft, "made"));
  const std::string blank(bytes, '\n');
  if (!write_all(fd.get(), blank)) return err(io_error(draft, "written"));
  return {};
}

Status write_durably(int folder, const std::string& name, std::string_view bytes) {
  return replace(folder, name, bytes, true);
}

Status write_whole(int folder, const std::string& name, std::string_view bytes) {
  return replace(folder, name, bytes, false);
}

Result<std::string> read_file(int folder, const std::string& name, std::size_t most) {
  // Not blocking, in case somebody has put a pipe there.
  const UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return err(ErrorCode::kNotFound, "there is no {}", name);
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return err(io_error(name, "read"));
  if (!S_ISREG(status.st_mode) || status.st_size > static_cast<off_t>(most)) {
    return err(ErrorCode::kDataLoss, "{} is not a file of at most {} bytes", name, most);
  }
  std::string bytes(most + 1, '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return err(io_error(name, "read"));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > most) return err(ErrorCode::kDataLoss, "{} is longer than {} bytes", name, most);
  bytes.resize(size);
  return bytes;
}

Result<UniqueFd> open_folder(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd) return fd;
  if (errno == ENOENT) return err(ErrorCode::kNotFound, "there is no folder {}", path);
  return err(io_error(path, "opened"));
}

}  // namespace divvy::sys
