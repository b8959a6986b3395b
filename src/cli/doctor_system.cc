// The machine: kernel, control groups, folders of container runtimes, the port of the metrics,
// limits, MPS, and the clock.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <set>

#include "base/text.h"
#include "cli/doctor.h"
#include "cli/doctor_files.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

Finding kernel(const DoctorInput& input) {
  const std::string check = "system.kernel";
  int major = 0;
  int minor = 0;
  const auto parts = split(input.kernel, '.');
  const auto number = [](std::string_view text, int& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
  };
  if (parts.size() < 2 || !number(parts[0], major) || !number(parts[1], minor)) {
    return {check, Verdict::kNote, fmt::format("kernel {} is of unknown age", input.kernel), ""};
  }
  const int age = major * 1000 + minor;
  if (age < 5009) {
    return {check, Verdict::kError, fmt::format("kernel {} is too old", input.kernel),
            "Divvy needs Linux 5.9 or newer (pidfd, sealed memory, close_range)."};
  }
  return {check, Verdict::kOk, fmt::format("kernel {} has all that is needed", input.kernel), ""};
}

Finding control_groups(const DoctorInput& input) {
  const std::string check = "system.cgroups";
  const fs::path base = below(input.root, "/sys/fs/cgroup");
  if (look_at(base / "cgroup.controllers")) {
    const bool writable = ::access((base / "cgroup.procs").c_str(), W_OK) == 0;
    return {check, Verdict::kOk,
            fmt::format("control groups are version 2{}",
                        input.uid == 0 && !writable ? ", and read-only here" : ""),
            ""};
  }
  if (look_at(base / "unified/cgroup.procs")) {
    return {check, Verdict::kNote, "control groups are of both versions (hybrid)",
            "Newer container runtimes want version 2 alone: boot with "
            "systemd.unified_cgroup_hierarchy=1."};
  }
  if (look_at(base / "memory")) {
    return {check, Verdict::kNote, "control groups are version 1",
            "Slices work with it; newer container runtimes want version 2: boot with "
            "systemd.unified_cgroup_hierarchy=1."};
  }
  return {
      check, Verdict::kWarning, "no control groups are mounted at /sys/fs/cgroup",
      "Containers cannot be limited without them; inside a container this may be as it should."};
}

Finding cdi(const DoctorInput& input) {
  const std::string check = "system.cdi";
  std::vector<std::string> missing;
  std::vector<std::string> open;
  for (const fs::path& folder : input.settings.cdi_folders) {
    const auto status = look_at(below(input.root, folder));
    if (!status) {
      missing.push_back(folder.string());
    } else if ((status->st_mode & 0002) != 0 || status->st_uid != 0) {
      open.push_back(folder.string());
    }
  }
  if (!open.empty()) {
    return {check, Verdict::kError,
            fmt::format("others than root may write to {}", fmt::join(open, ", ")),
            "Whoever writes there decides what containers are given: chown root and chmod 0755."};
  }
  if (missing.size() == input.settings.cdi_folders.size()) {
    return {check, Verdict::kNote, "there are no folders for devices of containers (CDI) yet",
            "Root's divvyd makes them; container runtimes then know the GPUs."};
  }
  return {check, Verdict::kOk, "the folders for devices of containers (CDI) are root's", ""};
}

// The inodes of sockets that listen on the port, from /proc/net/tcp and tcp6.
std::set<std::string> listeners(const fs::path& root, std::uint16_t port) {
  std::set<std::string> inodes;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* name : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = read_text(below(root, name)).value_or("");
    for (const std::string_view line : split(text, '\n')) {
      // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
      std::vector<std::string_view> words;
      for (const std::string_view word : split(line, ' ')) {
        if (!word.empty()) words.push_back(word);
      }
      if (words.size() > 9 && words[1].ends_with(wanted) && words[3] == "0A") {
        inodes.emplace(words[9]);
      }
    }
  }
  return inodes;
}

// "name (pid 12)" of a process that has one of the sockets open.
std::optional<std::pair<std::string, std::string>> owner(const fs::path& root,
                                                         const std::set<std::string>& inodes) {
  std::error_code code;
  for (const auto& process : fs::directory_iterator(below(root, "/proc"), code)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code hidden;
    for (const auto& entry : fs::directory_iterator(process.path() / "fd", hidden)) {
      const std::string target = fs::read_symlink(entry.path(), hidden).string();
      if (!target.starts_with("socket:[")) continue;
      if (!inodes.contains(target.substr(8, target.size() - 9))) continue;
      const std::string name = read_text(process.path() / "comm").value_or("?");
      return std::pair{std::string(trim(name)), pid};
    }
  }
  return std::nullopt;
}

Finding metrics_port(const DoctorInput& input) {
  const std::string check = "system.metrics_port";
  if (input.settings.metrics_port == 0) {
    return {check, Verdict::kOk, "metrics are not served, as the configuration says", ""};
  }
  const auto inodes = listeners(input.root, input.settings.metrics_port);
  if (inodes.empty()) {
    return {check, Verdict::kOk,
            fmt::format("port {} is free for metrics", input.settings.metrics_port), ""};
  }
  const auto who = owner(input.root, inodes);
  if (who && who->first == "divvyd") {
    return {check, Verdict::kOk,
            fmt::format("divvyd serves metrics on port {}", input.settings.metrics_port), ""};
  }
  return {check, Verdict::kWarning,
          fmt::format("port {}, where divvyd serves metrics, is taken by {}",
                      input.settings.metrics_port,
                      who ? fmt::format("{} (pid {})", who->first, who->second)
                          : "another program (root can see which)"),
          "Stop it (dcgm-exporter is not needed beside divvyd), or set metrics.address in "
          "/etc/divvy/divvyd.yaml."};
}

// Of the daemon where it runs and may be looked at, else of this shell.
Finding descriptors(const DoctorInput& input) {
  std::uint64_t limit = input.open_files;
  const auto lock = read_text(below(input.root, input.run_folder / "divvyd.lock"));
  const std::string pid(trim(lock.value_or("")));
  const bool is_number = !pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos;
  const auto limits =
      is_number ? read_text(below(input.root, "/proc/" + pid + "/limits")) : std::nullopt;
  if (limits) {
    for (const std::string_view line : split(*limits, '\n')) {
      if (!line.starts_with("Max open files")) continue;
      const std::string_view rest = trim(line.substr(14));
      std::from_chars(rest.data(), rest.data() + rest.size(), limit);
    }
  }
  const std::string text =
      fmt::format("{} may open {} files", limits ? "divvyd" : "this shell", limit);
  if (limit >= 4096) return {"system.open_files", Verdict::kOk, text, ""};
  return {"system.open_files", Verdict::kWarning, text,
          "Each process of a tenant costs divvyd three: raise LimitNOFILE in its unit, or "
          "`ulimit -n 65536` in the shell that starts it."};
}

Finding mps(const DoctorInput& input) {
  for (const std::string_view folder : split(input.search_path, ':')) {
    const fs::path program = below(input.root, fs::path(folder) / "nvidia-cuda-mps-control");
    if (!folder.empty() && ::access(program.c_str(), X_OK) == 0) {
      return {"system.mps", Verdict::kOk, "MPS is installed, so `divvy run --mode mps` can work",
              ""};
    }
  }
  return {"system.mps", Verdict::kNote, "nvidia-cuda-mps-control is not in PATH",
          "Only `--mode mps` needs it: it comes with the driver's utilities "
          "(nvidia-compute-utils, nvidia-cuda-mps)."};
}

Finding clock(const DoctorInput& input) {
  using namespace std::chrono;
  if (input.now < WallTime(sys_days(year(2024) / 1 / 1))) {
    return {"system.clock", Verdict::kError, "the clock says that it is before 2024",
            "Set it (`timedatectl set-ntp true`): times in the ledger and in metrics are wrong "
            "until then."};
  }
  if (!input.clock_synchronized) {
    return {"system.clock", Verdict::kNote, "the clock is not kept in step with others",
            "`timedatectl set-ntp true` does that, so that logs and metrics of several machines "
            "can be compared."};
  }
  return {"system.clock", Verdict::kOk, "the clock is kept in step with others", ""};
}

}  // namespace

Findings examine_system(const DoctorInput& input) {
  return {kernel(input), control_groups(input), cdi(input), metrics_port(input), descriptors(input),
          mps(input),    clock(input)};
}

}  // namespace divvy::cli
