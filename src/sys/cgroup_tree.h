// Which control groups this machine has and where a member's may be made: version 2, version 1 (one
// tree per controller), both at once, or none. Read from /proc; changes nothing.
//
// A value. Callable from any thread.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::sys {

// The controllers that limits need, and the freezer of version 1, which makes killing sure.
inline constexpr std::string_view kCpu = "cpu";
inline constexpr std::string_view kMemory = "memory";
inline constexpr std::string_view kPids = "pids";
inline constexpr std::string_view kFreezer = "freezer";

struct CgroupTree {
  // Version 2, where it has at least one of the controllers above or is alone.
  std::optional<std::filesystem::path> unified;
  // Version 1: the folder of each controller's tree, of those above.
  std::map<std::string, std::filesystem::path, std::less<>> legacy;
  // The group that this process is in, inside each tree; "" for version 2.
  std::map<std::string, std::filesystem::path, std::less<>> own;

  [[nodiscard]] bool empty() const { return !unified && legacy.empty(); }
};

// From the texts of /proc/self/mountinfo and /proc/self/cgroup.
[[nodiscard]] CgroupTree parse_cgroup_tree(std::string_view mountinfo, std::string_view cgroup);
// Of this process. `proc` is another folder in tests.
[[nodiscard]] CgroupTree find_cgroup_tree(const std::filesystem::path& proc = "/proc/self");

// Folders, the best first, below which the groups of members of this tree may be made.
[[nodiscard]] std::vector<std::filesystem::path> group_parents(const std::filesystem::path& tree,
                                                               const std::filesystem::path& own);

}  // namespace divvy::sys
