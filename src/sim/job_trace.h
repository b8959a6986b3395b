// A trace of training jobs: who asked for how many GPUs when, and for how long it worked. Read from
// CSV with the columns of the published traces (docs/simulator.md); plain values afterwards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/csv.h"

namespace divvy::sim {

// Equal nodes with equal GPUs.
struct ClusterShape {
  std::uint32_t nodes = 8;
  std::uint32_t gpus_per_node = 8;

  [[nodiscard]] std::uint32_t gpus() const { return nodes * gpus_per_node; }
};

// At least one GPU, and few enough for 32 bits everywhere.
[[nodiscard]] Status check_shape(const ClusterShape& shape);

struct TraceJob {
  std::string id;  // As the trace has it, or the number of the row from 0.
  std::string model;
  std::uint32_t gpus = 1;
  double submitted_s = 0;
  double work_s = 0;  // Time on its GPUs, restarts not counted.
  // How long one iteration keeps storage and CPU, the GPU, and the network busy, where the trace
  // says so; all zero otherwise.
  std::array<double, 3> resource_ms{};
  double iteration_ms = 0;
  std::size_t line = 0;
};

struct JobTrace {
  std::string name;            // The file.
  std::vector<TraceJob> jobs;  // By time of submission; at the same time as in the file.
};

// Columns: num_gpu, submit_time (ms), iterations, model_name, iteration_time (ms); job_id and
// resource_time_0..2 (ms) if they are there; others are ignored. Refused: duplicate job ids,
// negative numbers, no GPU or more than the cluster has, no work, no job at all.
[[nodiscard]] Result<JobTrace> read_job_trace(const std::string& path, const ClusterShape& cluster);
[[nodiscard]] Result<JobTrace> parse_job_trace(const CsvTable& table, const ClusterShape& cluster);

// What starting such a job on other GPUs costs in seconds, as measured for the published
// simulator. GPU counts between the measured ones count as the next larger one.
[[nodiscard]] double restart_cost_s(std::uint32_t gpus, std::string_view model);

}  // namespace divvy::sim
