#include "inject/cdi_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/unique_fd.h"

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVendor = "divvy.dev/";
constexpr std::string_view kFileStart = "divvy.dev-";

tl::unexpected<Error> io_error(std::string_view what, const fs::path& path, int reason) {
  return err(reason == EACCES || reason == EPERM ? ErrorCode::kPermissionDenied : ErrorCode::kIo,
             "{} {}: {}", path.string(), what, std::strerror(reason));
}

std::optional<std::string> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Status replace(const fs::path& path, const std::string& text) {
  // A name that runtimes do not take for a CDI file.
  const fs::path fresh = path.parent_path() / ("." + path.filename().string() + ".new");
  const UniqueFd file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return io_error("could not be made", fresh, errno);
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  const bool cut = written >= 0 && written < static_cast<ssize_t>(text.size());
  if (written < 0 || cut || ::fchmod(file.get(), 0644) != 0 || ::fsync(file.get()) != 0 ||
      ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int reason = cut ? ENOSPC : errno;
    ::unlink(fresh.c_str());
    return io_error("could not be written", path, reason);
  }
  return {};
}

bool is_about_our_devices(const std::string& text) {
  return kind_of_cdi_file(text).starts_with(kVendor);
}

Status remove_if_ours(const fs::path& file) {
  const auto text = read(file);
  // It is gone, or somebody has put a file of their own in its place.
  if (!text || !is_about_our_devices(*text)) return {};
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
    return io_error("could not be removed", file, errno);
  }
  return {};
}

}  // namespace

Status CdiFiles::write(const fs::path& file, const CdiSpec& spec) {
  DIVVY_RETURN_IF_ERROR(check(spec));
  const std::string text = to_json(spec);
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  if (code) return io_error("could not be made", file.parent_path(), code.value());
  const auto before = read(file);
  if (before && !is_about_our_devices(*before)) {
    return err(ErrorCode::kAlreadyExists,
               "{} is there and is not Divvy's; move it away, so that Divvy can write its own",
               file.string());
  }
  // First on the list and then in the folder: what is written can always be cleaned up.
  std::set<fs::path> files = ours();
  if (files.insert(file).second) DIVVY_RETURN_IF_ERROR(remember(files));
  if (before == text) return {};
  return replace(file, text);
}

Status CdiFiles::remove(const fs::path& file) {
  std::set<fs::path> files = ours();
  if (files.erase(file) == 0) return {};
  DIVVY_RETURN_IF_ERROR(remove_if_ours(file));
  return remember(files);
}

Status CdiFiles::keep_only(const std::set<fs::path>& files) {
  const std::set<fs::path> before = ours();
  std::set<fs::path> after;
  for (const fs::path& file : before) {
    if (files.contains(file)) {
      after.insert(file);
    } else {
      DIVVY_RETURN_IF_ERROR(remove_if_ours(file));
    }
  }
  return before == after ? Status{} : remember(after);
}

std::set<fs::path> CdiFiles::ours() const {
  std::set<fs::path> files;
  std::ifstream list(list_);
  for (std::string line; std::getline(list, line);) {
    const fs::path path = line;
    // A damaged list must not lead us to anything else.
    if (path.is_absolute() && path.filename().string().starts_with(kFileStart)) files.insert(path);
  }
  return files;
}

Status CdiFiles::remember(const std::set<fs::path>& files) const {
  std::string text;
  for (const fs::path& file : files) text += file.string() + "\n";
  return replace(list_, text);
}

std::string cdi_file_name(const std::string& kind, const std::string& device) {
  std::string name = kind;
  std::ranges::replace(name, '/', '-');
  if (!device.empty()) name += "_" + device;
  return name + ".json";
}

bool is_writable_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  return !code && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace divvy::inject
