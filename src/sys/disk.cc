#include "sys/disk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "sys/process.h"

namespace divvy::sys {
namespace {

namespace fs = std::filesystem;

// Takes the reason from errno.
Error disk_error(std::string_view what, const fs::path& path) {
  const int reason = errno;
  std::string message = fmt::format("{} {}: {}", path.string(), what, std::strerror(reason));
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return {ErrorCode::kIo, message + "; free some space there and try again"};
    case EROFS:
      return {ErrorCode::kPermissionDenied,
              message + "; mount it writable or name another folder with --state-dir"};
    case EACCES:
    case EPERM:
      return {ErrorCode::kPermissionDenied,
              fmt::format("{}; it has to belong to {} and be writable, or name another folder with "
                          "--state-dir",
                          message, user_name(::geteuid()))};
    default:
      return {ErrorCode::kIo, std::move(message)};
  }
}

class RealFile final : public DiskFile {
 public:
  RealFile(UniqueFd fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return err(error("could not be written"));
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
  }

  Status sync() override {
    // The length is synced too where it has changed; only times may be left behind.
    if (::fdatasync(fd_.get()) != 0) return err(error("could not be synced"));
    return {};
  }

  Status truncate(std::uint64_t size) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
      return err(error("could not be cut"));
    }
    return {};
  }

 private:
  // With the name that the file has by now: it may have been renamed since it was opened.
  [[nodiscard]] Error error(std::string_view what) const {
    const int reason = errno;
    std::error_code code;
    const fs::path now = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd_.get()), code);
    errno = reason;
    return disk_error(what, code ? path_ : now);
  }

  UniqueFd fd_;
  fs::path path_;
};

class RealDisk final : public Disk {
 public:
  explicit RealDisk(fs::path folder) : folder_(std::move(folder)) {}

  fs::path path(std::string_view name) const override { return folder_ / name; }

  Result<std::string> read(std::string_view name) const override {
    const fs::path file = path(name);
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT) {
      return err(ErrorCode::kNotFound, "there is no {}", file.string());
    }
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0) return err(disk_error("could not be read", file));
    std::string bytes;
    bytes.reserve(static_cast<std::size_t>(status.st_size));
    char buffer[65536];
    for (;;) {
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return err(disk_error("could not be read", file));
      if (got == 0) return bytes;
      bytes.append(buffer, static_cast<std::size_t>(got));
    }
  }

  Result<std::unique_ptr<DiskFile>> create(std::string_view name) override {
    fs::path file = path(name);
    // A link put there by somebody else would send our records elsewhere.
    UniqueFd fd(::open(file.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return err(disk_error("could not be opened", file));
    return std::make_unique<RealFile>(std::move(fd), std::move(file));
  }

  Status rename(std::string_view from, std::string_view to) override {
    if (::rename(path(from).c_str(), path(to).c_str()) != 0) {
      return err(disk_error("could not be replaced", path(to)));
    }
    return {};
  }

  Status remove(std::string_view name) override {
    if (::unlink(path(name).c_str()) != 0 && errno != ENOENT) {
      return err(disk_error("could not be removed", path(name)));
    }
    return {};
  }

  Status sync_folder() override {
    const UniqueFd fd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd || ::fsync(fd.get()) != 0) return err(disk_error("could not be synced", folder_));
    return {};
  }

 private:
  fs::path folder_;
};

}  // namespace

std::unique_ptr<Disk> open_disk(fs::path folder) {
  return std::make_unique<RealDisk>(std::move(folder));
}

}  // namespace divvy::sys
