// The figures of `divvy sim pack` for people and for programs. Pure functions of what was replayed;
// callable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/pack_replay.h"
#include "sim/plot.h"

namespace divvy::sim {

// One policy on all sequences.
struct PackReport {
  std::string policy;
  std::uint64_t seed = 0;  // of the first run; the next one has the next
  std::vector<PackRun> runs;

  // At each level the mean over the runs that reached it.
  [[nodiscard]] std::map<std::uint64_t, PackLevel> mean() const;
};

// Which levels a table has: "all", or numbers and ranges like "50,80,90-130".
class LevelFilter {
 public:
  [[nodiscard]] static Result<LevelFilter> parse(std::string_view text);

  [[nodiscard]] bool operator()(std::uint64_t level) const;

 private:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  std::vector<Range> ranges_;  // empty: all
};

// The cells of a table, the first row its headers. One policy: everything about it. Several: how
// much each of them allocates, side by side.
using TableCells = std::vector<std::vector<std::string>>;
[[nodiscard]] TableCells pack_table(std::span<const PackReport> reports, const LevelFilter& levels);

// A line for each policy that says what was replayed and how many pods found no place.
[[nodiscard]] std::string pack_summary(std::span<const PackReport> reports);

// JSON. One policy: an object {"policy", "runs", "mean"}; several: {"policies": [...]} of these.
[[nodiscard]] std::string pack_document(std::span<const PackReport> reports);

// Allocation and fragmentation over what arrived, a line for each policy.
[[nodiscard]] Figure pack_figure(std::span<const PackReport> reports);

}  // namespace divvy::sim
