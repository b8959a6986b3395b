// What the daemon tells those who watch (GET /v1/stats), as plain values, and a little of its past.
// Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace divvy::cli {

struct SliceStats {
  std::uint32_t gpu = 0;
  Share share;
  bool capped = false;
  Bytes memory_used;
  Bytes memory_limit;
  Bytes memory_peak;
  // Thousandths of the GPU's time in the last second; nothing where nobody can tell
  std::optional<std::uint32_t> used;
  std::uint32_t waited = 0;  // Thousandths of the last second
};

struct TenantStats {
  std::uint64_t id = 0;
  std::string name;
  std::string user;
  std::string tenant_class;
  std::string state;
  std::string command;
  std::vector<SliceStats> slices;

  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::uint64_t waited() const;
  [[nodiscard]] Bytes memory() const;
};

struct GpuStats {
  std::uint32_t index = 0;
  std::string model;
  Bytes memory;
  Share free_share;
  std::string unusable;
};

struct WaitingJob {
  std::uint64_t id = 0;
  std::string name;
  std::string user;
  std::string queue;
  std::string gpu;  // "0.3", "4 x 1"
};

struct Stats {
  std::string hostname;
  bool simulated = false;
  std::uint64_t waiting = 0;
  std::vector<GpuStats> gpus;
  std::vector<TenantStats> tenants;
  // Jobs in the queue, the newest first; not all of them where `more_jobs`.
  std::vector<WaitingJob> jobs{};
  bool more_jobs = false;

  // Thousandths of this GPU's time that all tenants together had.
  [[nodiscard]] std::uint32_t used_on(std::uint32_t gpu) const;
  [[nodiscard]] Bytes memory_on(std::uint32_t gpu) const;
};

// Text in it is safe for a terminal.
[[nodiscard]] Result<Stats> parse_stats(const std::string& document);

// The jobs that wait, from a page of GET /v1/jobs. What is not understood is left out: the GPUs are
// worth looking at without them.
void add_waiting_jobs(Stats& stats, const std::string& document);
inline constexpr const char* kWaitingJobsPath = "/v1/jobs?state=queued&limit=50";

// How busy each GPU was at the last looks, oldest first.
class History {
 public:
  static constexpr std::size_t kLooks = 60;
  void add(const Stats& stats);
  [[nodiscard]] std::vector<std::uint32_t> of(std::uint32_t gpu) const;

 private:
  std::map<std::uint32_t, std::deque<std::uint32_t>> used_;
};

}  // namespace divvy::cli
