#include "sys/cgroup_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/text.h"

namespace divvy::sys {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kControllers[] = {kCpu, kMemory, kPids, kFreezer};
constexpr const char* kOurs = "divvy";

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Paths in mountinfo have blanks and backslashes in octal.
std::string unescape(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      result.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                         (text[i + 3] - '0')));
      i += 3;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

struct MountLine {
  std::string root;
  std::string folder;
  std::string type;
  std::vector<std::string_view> options;  // of the file system: controllers, in version 1
};

// 36 35 98:0 /root /mnt rw,noatime shared:1 - cgroup2 cgroup2 rw,nsdelegate
std::optional<MountLine> parse_mount(std::string_view line) {
  const auto fields = split(line, ' ');
  const auto dash = std::ranges::find(fields, "-");
  if (fields.size() < 10 || fields.end() - dash < 4) return std::nullopt;
  return MountLine{unescape(fields[3]), unescape(fields[4]), std::string(*(dash + 1)),
                   split(*(dash + 3), ',')};
}

// A mount may show only a part of the tree, as in a container.
fs::path below(const fs::path& group, const std::string& root) {
  const fs::path inside = group.lexically_relative(root);
  return inside.empty() || *inside.begin() == ".." || inside == "." ? fs::path() : inside;
}

// Are the controllers of this tree for us? A hybrid machine mounts an empty one of version 2.
bool has_controller(const fs::path& tree) {
  const std::string text = read_text(tree / "cgroup.controllers");
  for (const std::string_view name : split(trim(text), ' ')) {
    if (std::ranges::find(kControllers, name) != std::end(kControllers)) return true;
  }
  return false;
}

}  // namespace

CgroupTree parse_cgroup_tree(std::string_view mountinfo, std::string_view cgroup) {
  std::map<std::string, fs::path, std::less<>> groups;  // by controller, "" for version 2
  for (const std::string_view line : split(cgroup, '\n')) {
    // 4:cpu,cpuacct:/user.slice
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    for (const auto name : split(line.substr(first + 1, second - first - 1), ',')) {
      groups[std::string(name)] = fs::path(line.substr(second + 1));
    }
  }
  CgroupTree tree;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto mount = parse_mount(line);
    if (!mount) continue;
    if (mount->type == "cgroup2" && !tree.unified) {
      tree.unified = mount->folder;
      tree.own[""] = below(groups[""], mount->root);
    }
    if (mount->type != "cgroup") continue;
    for (const std::string_view name : kControllers) {
      if (std::ranges::find(mount->options, name) == mount->options.end()) continue;
      if (!tree.legacy.emplace(name, mount->folder).second) continue;
      tree.own[std::string(name)] = below(groups[std::string(name)], mount->root);
    }
  }
  if (tree.unified && !tree.legacy.empty() && !has_controller(*tree.unified)) tree.unified.reset();
  return tree;
}

CgroupTree find_cgroup_tree(const fs::path& proc) {
  return parse_cgroup_tree(read_text(proc / "mountinfo"), read_text(proc / "cgroup"));
}

std::vector<fs::path> group_parents(const fs::path& tree, const fs::path& own) {
  std::vector<fs::path> result;
  // Inside the group that the daemon was put into, so that its limits hold for all that it starts.
  // In version 2 that works only where this group holds no process itself; then beside all others.
  if (!own.empty()) result.push_back(tree / own / kOurs);
  result.push_back(tree / kOurs);
  return result;
}

}  // namespace divvy::sys
