// A folder that is the root of a file system of its own: of a driver that a container has
// installed, of a staged driver, or of a test. Paths in it are absolute, and its symbolic links are
// followed as if the folder were "/", so that none leads out of it.
//
// A value; callable from any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace divvy::inject {

class RootFolder {
 public:
  RootFolder() = default;
  explicit RootFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  // Where `inside` is on this machine, once all links on the way are followed; the result has none.
  // Nothing when it does not exist.
  [[nodiscard]] std::optional<std::filesystem::path> resolve(
      const std::filesystem::path& inside) const;
  // The other way round: the path inside of something that resolve() gave.
  [[nodiscard]] std::filesystem::path inside(const std::filesystem::path& resolved) const;

  // Names in a folder, in order; empty when there is none.
  [[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& inside) const;
  // The first `most` bytes of a file; nothing when it cannot be read.
  [[nodiscard]] std::optional<std::string> read(const std::filesystem::path& inside,
                                                std::size_t most) const;

 private:
  std::filesystem::path folder_ = "/";
};

}  // namespace divvy::inject
