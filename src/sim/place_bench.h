// How fast the placement engine decides: what `divvy bench place` measures. Clusters of several
// sizes are filled until as much was asked for as there is, kept full while members come and go,
// and asked for gangs; the same cluster is then loaded again from its record. Runs on the calling
// thread, which should have a core to itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "place/node_spec.h"
#include "sim/pack_trace.h"

namespace divvy::sim {

struct PlaceBenchOptions {
  std::string policy = "divvy";
  std::vector<std::uint64_t> gpus{1'000, 10'000, 100'000};
  // A cluster and its requests, repeated until the size is reached. Without: ones of our own.
  std::vector<place::NodeSpec> nodes;
  std::vector<PackPod> pods;
  std::uint64_t steady_decisions = 100'000;
};

struct PlaceBenchRow {
  std::string what;  // "fill", "steady", "gang of 64, one zone", "load"
  std::uint64_t gpus = 0;
  std::uint64_t nodes = 0;
  std::uint64_t decisions = 0;
  double cpu_seconds = 0;  // of this thread, for all of them, with what goes in between
  double p50_us = 0;       // by the clock on the wall
  double p99_us = 0;
  double p999_us = 0;
  double held_percent = 0;  // of all GPUs, at the end
  std::uint64_t bytes =
      0;  // of cluster, tables and what the policy remembers: growth of the process

  [[nodiscard]] double per_second() const {
    return cpu_seconds > 0 ? static_cast<double>(decisions) / cpu_seconds : 0;
  }
};

// `told` hears of every row as soon as it is there. Refused: an unknown policy, no size.
[[nodiscard]] Result<std::vector<PlaceBenchRow>> bench_place(
    const PlaceBenchOptions& options, const std::function<void(const PlaceBenchRow&)>& told = {});

}  // namespace divvy::sim
