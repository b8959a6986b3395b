#include "run/cgroups.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/text.h"
#include "base/unique_fd.h"
#include "sys/durable_file.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCpuPeriodUs = 100'000;
constexpr std::uint64_t kLeastCpuUs = 1'000;  // The kernel takes no less

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Status write_control(const fs::path& path, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC));
  if (file && sys::write_all(file.get(), text)) return {};
  return err(ErrorCode::kIo, "{}: {}", path.string(), std::strerror(errno));
}

Status make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  const int reason = errno;
  Status failed = err(ErrorCode::kIo, "{}: {}", path.string(), std::strerror(reason));
  errno = reason;
  return failed;
}

bool lists(const std::string& text, std::string_view name) {
  const auto names = split(trim(text), ' ');
  return std::ranges::find(names, name) != names.end();
}

constexpr std::string_view kLimiting[] = {sys::kCpu, sys::kMemory, sys::kPids};

// Lets the groups in `folder` have the controllers that the folder has. Says which they lack.
std::vector<std::string> pass_on(const fs::path& folder) {
  std::vector<std::string> missing;
  const std::string present = read_text(folder / "cgroup.controllers");
  const std::string passed_on = read_text(folder / "cgroup.subtree_control");
  for (const std::string_view name : kLimiting) {
    if (lists(passed_on, name)) continue;
    if (!lists(present, name)) {
      missing.push_back(
          fmt::format("{} is not among the controllers of {}", name, folder.string()));
    } else if (const Status on =
                   write_control(folder / "cgroup.subtree_control", fmt::format("+{}", name));
               !on) {
      missing.push_back(on.error().message);
    }
  }
  return missing;
}

// Makes a member's group, and once more what it stands in: the last member of before may have
// removed that since it was planned.
Status make_group(const fs::path& folder, bool unified) {
  constexpr int kTries = 10;
  Status made;
  for (int tries = 0; tries < kTries; ++tries) {
    made = make_folder(folder);
    if (made || errno != ENOENT) return made;
    const fs::path parent = folder.parent_path();
    (void)make_folder(parent);
    if (unified) (void)pass_on(parent);
  }
  return made;
}

CgroupPlan plan_unified(const fs::path& tree, const fs::path& own, const std::string& name) {
  CgroupPlan best;
  for (const fs::path& parent : sys::group_parents(tree, own)) {
    CgroupPlan plan;
    plan.unified = true;
    plan.without = pass_on(parent.parent_path());
    if (const Status made = make_folder(parent); !made) {
      plan.without = {made.error().message};
    } else {
      for (std::string& missing : pass_on(parent)) plan.without.push_back(std::move(missing));
      // Without a single controller it still holds the processes together.
      plan.folders = {parent / name};
    }
    const bool better = best.folders.empty() || plan.without.size() < best.without.size();
    if (better && (!plan.folders.empty() || best.without.empty())) best = std::move(plan);
    if (!best.folders.empty() && best.without.empty()) break;
  }
  return best;
}

CgroupPlan plan_legacy(const sys::CgroupTree& tree, const std::string& name) {
  CgroupPlan plan;
  for (const auto& [controller, folder] : tree.legacy) {
    std::string trouble;
    for (const fs::path& parent : sys::group_parents(folder, tree.own.at(controller))) {
      const Status made = make_folder(parent);
      if (made) {
        plan.folders.push_back(parent / name);
        trouble.clear();
        break;
      }
      if (trouble.empty()) trouble = made.error().message;
    }
    if (!trouble.empty()) plan.without.push_back(std::move(trouble));
  }
  for (const std::string_view wanted : kLimiting) {
    if (!tree.legacy.contains(wanted)) {
      plan.without.push_back(fmt::format("{} is not mounted", wanted));
    }
  }
  return plan;
}

// The files of both versions that hold one limit, and what is to be written.
struct Setting {
  const char* unified;
  const char* legacy;
  std::string unified_text;
  std::string legacy_text;
};

// Writes it in the one folder that has the file.
Status write_setting(const std::vector<fs::path>& folders, const Setting& setting) {
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / setting.unified)) {
      return write_control(folder / setting.unified, setting.unified_text);
    }
    if (fs::exists(folder / setting.legacy)) {
      return write_control(folder / setting.legacy, setting.legacy_text);
    }
  }
  return err(ErrorCode::kUnsupported, "no control group for it could be made");
}

void write_where_present(const std::vector<fs::path>& folders, const char* name,
                         std::string_view text) {
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name)) (void)write_control(folder / name, text);
  }
}

// The folder and all below it, the deepest last.
std::vector<fs::path> with_folders_below(const fs::path& folder) {
  std::vector<fs::path> result = {folder};
  std::error_code code;
  fs::recursive_directory_iterator entries(folder, code);
  for (const fs::recursive_directory_iterator end; !code && entries != end;
       entries.increment(code)) {
    std::error_code ignored;
    if (entries->is_directory(ignored)) result.push_back(entries->path());
  }
  return result;
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t count = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return count;
}

// 0 where there is no such file.
std::uint64_t number_in(const fs::path& file) { return number_of(trim(read_text(file))); }

std::uint64_t count_after(const std::string& text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") continue;
    return number_of(trim(line.substr(name.size() + 1)));
  }
  return 0;
}

}  // namespace

CgroupPlan plan_cgroup(const sys::CgroupTree& tree, const std::string& name) {
  if (tree.empty()) {
    CgroupPlan plan;
    plan.without = {"this machine mounts no control groups"};
    return plan;
  }
  if (tree.unified) return plan_unified(*tree.unified, tree.own.at(""), name);
  return plan_legacy(tree, name);
}

Cgroup Cgroup::make(const CgroupPlan& plan, const model::MemberLimits& limits,
                    std::string& without) {
  Cgroup group;
  std::vector<std::string> why = plan.without;
  for (const fs::path& folder : plan.folders) {
    if (const Status made = make_group(folder, plan.unified); made) {
      group.folders_.push_back(folder);
    } else {
      why.push_back(made.error().message);
    }
  }
  std::vector<std::string> missing;
  const auto hold = [&](std::string_view what, const Setting& setting) {
    if (const Status held = write_setting(group.folders_, setting); !held) {
      missing.emplace_back(what);
      why.push_back(held.error().message);
    }
  };
  if (limits.ram) {
    const std::string bytes = fmt::to_string(limits.ram->count());
    hold("memory", {"memory.max", "memory.limit_in_bytes", bytes, bytes});
    // Swapping instead of ending would only make it slow, and others with it.
    write_where_present(group.folders_, "memory.swap.max", "0");
    write_where_present(group.folders_, "memory.memsw.limit_in_bytes", bytes);
    // A member of which the kernel has killed one process seldom does anything sensible.
    write_where_present(group.folders_, "memory.oom.group", "1");
  }
  if (limits.cpu_milli) {
    const std::uint64_t quota = std::max(*limits.cpu_milli * (kCpuPeriodUs / 1'000), kLeastCpuUs);
    write_where_present(group.folders_, "cpu.cfs_period_us", fmt::to_string(kCpuPeriodUs));
    hold("CPU", {"cpu.max", "cpu.cfs_quota_us", fmt::format("{} {}", quota, kCpuPeriodUs),
                 fmt::to_string(quota)});
  }
  if (limits.pids) {
    const std::string count = fmt::to_string(*limits.pids);
    hold("processes", {"pids.max", "pids.max", count, count});
  }
  if (!missing.empty()) {
    without = fmt::format("no limit on {}: {}", fmt::join(missing, ", "), fmt::join(why, "; "));
  }
  return group;
}

Cgroup Cgroup::adopt(const std::vector<std::string>& folders) {
  Cgroup group;
  group.folders_.assign(folders.begin(), folders.end());
  return group;
}

bool Cgroup::exists() const {
  return std::ranges::any_of(folders_, [](const fs::path& folder) {
    std::error_code code;
    return fs::is_directory(folder, code);
  });
}

std::vector<std::string> Cgroup::procs_files() const {
  std::vector<std::string> result;
  result.reserve(folders_.size());
  for (const fs::path& folder : folders_) result.push_back((folder / "cgroup.procs").string());
  return result;
}

std::vector<pid_t> Cgroup::processes() const {
  std::set<pid_t> result;
  for (const fs::path& root : folders_) {
    for (const fs::path& folder : with_folders_below(root)) {
      const std::string text = read_text(folder / "cgroup.procs");
      for (const std::string_view line : split(text, '\n')) {
        pid_t pid = 0;
        const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), pid);
        // 0 is a process of a namespace that we cannot see into.
        if (code == std::errc() && pid > 1) result.insert(pid);
      }
    }
  }
  return {result.begin(), result.end()};
}

void Cgroup::signal(int number) const {
  for (const pid_t pid : processes()) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process) continue;
    // Held, so it is the same one if it is still listed.
    const auto now = processes();
    if (std::ranges::find(now, pid) == now.end()) continue;
    ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
  }
}

Status Cgroup::freeze(bool frozen) const {
  for (const fs::path& folder : folders_) {
    if (fs::exists(folder / "cgroup.freeze")) {
      return write_control(folder / "cgroup.freeze", frozen ? "1" : "0");
    }
    if (fs::exists(folder / "freezer.state")) {
      return write_control(folder / "freezer.state", frozen ? "FROZEN" : "THAWED");
    }
  }
  return err(ErrorCode::kUnsupported,
             "there is no control group in which processes could be made to stand still");
}

bool Cgroup::kill() const {
  if (processes().empty()) return false;
  for (const fs::path& folder : folders_) {
    if (fs::exists(folder / "cgroup.kill")) {
      if (write_control(folder / "cgroup.kill", "1")) return true;
    }
  }
  // Who stands still cannot multiply; who is to die has to be let go again.
  (void)freeze(true);
  signal(SIGKILL);
  (void)freeze(false);
  return true;
}

std::uint64_t Cgroup::out_of_memory() const {
  std::uint64_t killed = 0;
  for (const fs::path& folder : folders_) {
    killed += count_after(read_text(folder / "memory.events"), "oom_kill");
    killed += count_after(read_text(folder / "memory.oom_control"), "oom_kill");
  }
  return killed;
}

model::MemberUse Cgroup::use() const {
  model::MemberUse use;
  for (const fs::path& folder : folders_) {
    // Version 2, then version 1; what a kernel does not count is not there, or 0.
    if (const auto us = count_after(read_text(folder / "cpu.stat"), "usage_usec"); us > 0) {
      use.cpu = std::chrono::microseconds(us);
    } else if (const auto ns = number_in(folder / "cpuacct.usage"); ns > 0) {
      use.cpu = Duration(static_cast<Duration::rep>(ns));
    }
    for (const char* const file : {"memory.peak", "memory.max_usage_in_bytes"}) {
      if (const auto bytes = number_in(folder / file); bytes > 0) use.ram_peak = Bytes(bytes);
    }
  }
  return use;
}

bool Cgroup::remove() const {
  bool all = true;
  for (const fs::path& root : folders_) {
    auto folders = with_folders_below(root);
    for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
      if (::rmdir(folder->c_str()) != 0 && errno != ENOENT) all = false;
    }
    // What they stand in too, when this was the last; otherwise the kernel refuses.
    (void)::rmdir(root.parent_path().c_str());
  }
  return all;
}

}  // namespace divvy::run
