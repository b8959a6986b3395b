#include "sys/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

#include "base/text.h"

namespace divvy::sys {
namespace {

std::string read_small(const std::string& path, std::size_t most) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd && text.size() < most) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

std::string proc_file(pid_t pid, std::string_view name) {
  return fmt::format("/proc/{}/{}", pid, name);
}

// The fields of /proc/PID/stat from the third on: what stands before the last parenthesis is a name
// that may hold anything. Empty when the process is gone.
std::vector<std::string> stat_fields(pid_t pid) {
  const std::string text = read_small(proc_file(pid, "stat"), 4096);
  const std::size_t end = text.rfind(") ");
  if (end == std::string::npos) return {};
  std::vector<std::string> result;
  for (const std::string_view field : split(trim(std::string_view(text).substr(end + 2)), ' ')) {
    result.emplace_back(field);
  }
  return result;
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<pid_t> parent_of(pid_t pid) {
  const auto fields = stat_fields(pid);
  if (fields.size() < 2) return std::nullopt;
  return number<pid_t>(fields[1]);
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (folder) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (const auto pid = number<pid_t>(entry->d_name); pid && *pid > 0) result.push_back(*pid);
  }
  return result;
}

int open_pid(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

std::string this_boot() {
  return std::string(trim(read_small("/proc/sys/kernel/random/boot_id", 128)));
}

std::optional<ProcessMark> mark_of(pid_t pid) {
  const auto fields = stat_fields(pid);
  constexpr std::size_t kStart = 22 - 3;  // The 22nd field, counted from the third
  if (fields.size() <= kStart) return std::nullopt;
  const auto ticks = number<std::uint64_t>(fields[kStart]);
  if (!ticks) return std::nullopt;
  return ProcessMark{pid, *ticks, this_boot()};
}

Result<UniqueFd> open_process(const ProcessMark& mark) {
  UniqueFd fd(mark.pid > 0 ? open_pid(mark.pid) : -1);
  // Looked at after the descriptor was opened, so that both are about one process.
  if (fd && mark_of(mark.pid) == mark) return fd;
  return err(ErrorCode::kNotFound, "process {} is gone", mark.pid);
}

bool is_running(const ProcessMark& mark) {
  const auto process = open_process(mark);
  pollfd look{process ? process->get() : -1, POLLIN, 0};
  return process && ::poll(&look, 1, 0) == 0;
}

std::vector<pid_t> descendants(pid_t root) {
  std::unordered_multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_processes()) {
    if (const auto parent = parent_of(pid)) children.emplace(*parent, pid);
  }
  std::vector<pid_t> result;
  std::set<pid_t> seen = {root};
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t next = open.back();
    open.pop_back();
    const auto [first, last] = children.equal_range(next);
    for (auto child = first; child != last; ++child) {
      // The picture was not taken in one moment, so that it may even have a ring in it.
      if (!seen.insert(child->second).second) continue;
      result.push_back(child->second);
      open.push_back(child->second);
    }
  }
  return result;
}

void signal_descendants(pid_t root, int signal) {
  for (const pid_t pid : descendants(root)) {
    const UniqueFd process(open_pid(pid));
    if (!process) continue;
    // With the process held, its line of parents is followed once more: a number that was given to
    // somebody else meanwhile does not lead to the root.
    pid_t above = pid;
    for (int steps = 0; above > 1 && above != root && steps < 10'000; ++steps) {
      above = parent_of(above).value_or(0);
    }
    if (above == root) ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
  }
}

std::vector<pid_t> processes_with(const std::string& entry, pid_t except) {
  std::vector<pid_t> result;
  for (const pid_t pid : all_processes()) {
    if (pid == except) continue;
    const std::string text = read_small(proc_file(pid, "environ"), std::size_t{4} << 20);
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\0', at), text.size());
      if (std::string_view(text).substr(at, end - at) == entry) {
        result.push_back(pid);
        break;
      }
      at = end + 1;
    }
  }
  return result;
}

}  // namespace divvy::sys
