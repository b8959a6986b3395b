// Copies of the driver's files by version, so that an update of the driver does not pull them from
// under containers: what a container was given stays until its version is of no use to anybody.
//
// An update of the package replaces the files while the kernel module of before stays loaded until
// the next boot. A container that starts in between needs the files of the module. A version's
// folder is itself a driver's root (RootFolder) in which find_driver_files() finds the same files.
//
// A copy costs nothing where the file system can share the contents (a reflink) or, next best, can
// give the file a second name (a hard link): package managers and NVIDIA's installer remove the old
// file and make a new one, which leaves a second name alone. Elsewhere the bytes are copied.
//
// One caller at a time.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "base/result.h"
#include "inject/driver_files.h"

namespace divvy::inject {

class DriverStage {
 public:
  explicit DriverStage(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Takes in what is not there yet, and anew what has changed; never takes anything out of a
  // version, nor writes into a file that a container may have. Sockets are not taken in.
  [[nodiscard]] Status add(const DriverFiles& files) const;
  // Was everything of the version taken in?
  [[nodiscard]] bool has(const std::string& version) const;
  [[nodiscard]] std::filesystem::path root_of(const std::string& version) const;
  // Removes all other versions. Running containers keep their files all the same: what is mounted
  // lives on without a name.
  [[nodiscard]] Status keep_only(const std::set<std::string>& versions) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace divvy::inject
