// The daemon as a process, under the names that every exporter has for itself.
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "api/metrics_snapshot.h"

namespace divvy::api {
namespace {

using Type = Exposition::Type;

// Fields of /proc/self/stat, counted from the third on: the second, a name in parentheses, may hold
// anything.
constexpr std::size_t kStartTime = 22 - 3;
constexpr std::size_t kResidentPages = 24 - 3;

std::vector<std::uint64_t> read_stat() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream rest(text.substr(end + 1));
  std::string state;
  rest >> state;
  std::vector<std::uint64_t> fields = {0};  // The state is no number
  for (std::int64_t field = 0; rest >> field;) {
    fields.push_back(static_cast<std::uint64_t>(field));
  }
  return fields;
}

// Seconds since 1970 at which the machine was started.
double boot_time() {
  timespec since_boot{};
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = [](const timespec& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  return seconds(now) - seconds(since_boot);
}

}  // namespace

void write_process_metrics(Exposition& out) {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  out.begin("process_cpu_seconds_total", Type::kCounter, "Processor time of the daemon.");
  out.add({}, static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9);
  const std::vector<std::uint64_t> stat = read_stat();
  out.begin("process_resident_memory_bytes", Type::kGauge, "Memory of the daemon.");
  if (stat.size() > kResidentPages) {
    out.add({}, stat[kResidentPages] * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  }
  // The same at every scrape: both clocks are read again, and would differ by a little.
  static const double booted = boot_time();
  out.begin("process_start_time_seconds", Type::kGauge,
            "When the daemon was started, in seconds since 1970.");
  if (stat.size() > kStartTime) {
    out.add({}, booted + static_cast<double>(stat[kStartTime]) /
                             static_cast<double>(::sysconf(_SC_CLK_TCK)));
  }
  std::error_code code;
  std::uint64_t open = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", code), end; !code && at != end;
       at.increment(code)) {
    ++open;
  }
  out.begin("process_open_fds", Type::kGauge, "Descriptors that the daemon has open.");
  if (!code) out.add({}, open);
}

}  // namespace divvy::api
