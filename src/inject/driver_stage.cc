#include "inject/driver_stage.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/unique_fd.h"

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;

// In a version's folder, once everything is in it.
constexpr const char* kComplete = ".complete";

tl::unexpected<Error> io_error(std::string_view what, const fs::path& path, int reason) {
  return err(ErrorCode::kIo, "{} {}: {}{}", path.string(), what, std::strerror(reason),
             reason == ENOSPC ? "; free some space there and restart divvyd" : "");
}

// The same file, or a copy that has its time and length.
bool is_copy_of(const struct stat& copy, const struct stat& file) {
  if (copy.st_dev == file.st_dev && copy.st_ino == file.st_ino) return true;
  return copy.st_size == file.st_size && copy.st_mtim.tv_sec == file.st_mtim.tv_sec &&
         copy.st_mtim.tv_nsec == file.st_mtim.tv_nsec;
}

enum class Contents { kShared, kCopied };

bool copy_bytes(int from, int to, off_t size, Contents how) {
  if (how == Contents::kShared) return ::ioctl(to, FICLONE, from) == 0;
  for (off_t left = size; left > 0;) {
    const ssize_t moved = ::sendfile(to, from, nullptr, static_cast<std::size_t>(left));
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) errno = EIO;  // It has become shorter meanwhile
    if (moved <= 0) return false;
    left -= moved;
  }
  return true;
}

Status copy_file(const fs::path& from, const struct stat& info, const fs::path& to, Contents how) {
  const UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return io_error("could not be opened", from, errno);
  const UniqueFd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out) return io_error("could not be made", to, errno);
  const timespec times[] = {info.st_mtim, info.st_mtim};
  if (!copy_bytes(in.get(), out.get(), info.st_size, how) ||
      ::fchmod(out.get(), info.st_mode & 0755) != 0 || ::futimens(out.get(), times) != 0) {
    const int reason = errno;
    ::unlink(to.c_str());
    return io_error("could not be copied", from, reason);
  }
  return {};
}

Status take_in(const fs::path& from, const fs::path& to) {
  struct stat info{};
  if (::stat(from.c_str(), &info) != 0) return io_error("could not be seen", from, errno);
  struct stat before{};
  if (::lstat(to.c_str(), &before) == 0 && is_copy_of(before, info)) return {};
  std::error_code code;
  fs::create_directories(to.parent_path(), code);
  if (code) return io_error("could not be made", to.parent_path(), code.value());
  const fs::path fresh = to.string() + ".new";
  ::unlink(fresh.c_str());
  if (!copy_file(from, info, fresh, Contents::kShared) &&
      ::link(from.c_str(), fresh.c_str()) != 0) {
    DIVVY_RETURN_IF_ERROR(copy_file(from, info, fresh, Contents::kCopied));
  }
  // A container that has the file of before keeps that one.
  if (::rename(fresh.c_str(), to.c_str()) != 0) return io_error("could not be replaced", to, errno);
  return {};
}

}  // namespace

Status DriverStage::add(const DriverFiles& files) const {
  const fs::path root = root_of(files.version);
  const auto inside = [&root](const fs::path& path) { return root / path.relative_path(); };
  for (const DriverLibrary& library : files.libraries) {
    // Wherever they were: there is no linker's cache here that would tell of an odd folder.
    const fs::path folder = usual_library_folders(library.machine).front() / library.subfolder;
    DIVVY_RETURN_IF_ERROR(take_in(library.file, inside(folder / library.file.filename())));
  }
  for (const auto* group : {&files.programs, &files.data}) {
    for (const DriverFile& file : *group)
      DIVVY_RETURN_IF_ERROR(take_in(file.file, inside(file.inside)));
  }
  const std::ofstream complete(root / kComplete);
  if (!complete) return io_error("could not be made", root / kComplete, errno);
  return {};
}

bool DriverStage::has(const std::string& version) const {
  std::error_code code;
  return fs::exists(root_of(version) / kComplete, code);
}

fs::path DriverStage::root_of(const std::string& version) const { return folder_ / version; }

Status DriverStage::keep_only(const std::set<std::string>& versions) const {
  std::error_code code;
  std::vector<fs::path> others;
  for (fs::directory_iterator entry(folder_, code), end; !code && entry != end;
       entry.increment(code)) {
    if (!versions.contains(entry->path().filename().string())) others.push_back(entry->path());
  }
  for (const fs::path& other : others) {
    // Not half a version that looks whole, should we be stopped on the way.
    fs::remove(other / kComplete, code);
    fs::remove_all(other, code);
    if (code) return io_error("could not be removed", other, code.value());
  }
  return {};
}

}  // namespace divvy::inject
