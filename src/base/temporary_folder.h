// A folder for one test or benchmark, removed with everything in it. Whatever still uses it is
// declared after it, or ended before. One thread.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace divvy {

class TemporaryFolder {
 public:
  // Mode 0700, in the folder that the system has for such.
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "divvy-XXXXXX").string();
    DIVVY_CHECK(::mkdtemp(name.data()) != nullptr, "{} cannot be made", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string string() const { return path_.string(); }
  // NOLINTNEXTLINE(google-explicit-constructor): it is used as a path everywhere.
  operator const std::filesystem::path&() const { return path_; }
  friend std::filesystem::path operator/(const TemporaryFolder& folder,
                                         const std::filesystem::path& inside) {
    return folder.path_ / inside;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace divvy
