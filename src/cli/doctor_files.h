// What the checks of `divvy doctor` read from the file system, below the root of a DoctorInput.
// Nothing here fails: what cannot be read is not there.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace divvy::cli {

// `path` (with or without a slash at the beginning) below `root`.
[[nodiscard]] inline std::filesystem::path below(const std::filesystem::path& root,
                                                 const std::filesystem::path& path) {
  return root / path.relative_path();
}

[[nodiscard]] inline std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

[[nodiscard]] inline std::optional<struct stat> look_at(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

}  // namespace divvy::cli
