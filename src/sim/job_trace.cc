#include "sim/job_trace.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

// The published simulator lets every job take this much longer than its profile says.
constexpr double kProfileFactor = 1.015;
// A century in milliseconds: nobody waits that long, and sums of a million jobs stay exact enough.
constexpr std::uint64_t kLongestMs = std::uint64_t{100} * 366 * 24 * 3600 * 1000;
constexpr std::uint64_t kIterationsMax = std::uint64_t{1} << 53;

struct Columns {
  std::size_t gpus;
  std::size_t submitted;
  std::size_t iterations;
  std::size_t model;
  std::size_t iteration_time;
  std::optional<std::size_t> id;
  std::array<std::optional<std::size_t>, 3> resources;
};

Result<Columns> find_columns(const CsvTable& table) {
  Columns columns{};
  DIVVY_TRY(gpus, table.column("num_gpu"));
  DIVVY_TRY(submitted, table.column("submit_time"));
  DIVVY_TRY(iterations, table.column("iterations"));
  DIVVY_TRY(model, table.column("model_name"));
  DIVVY_TRY(iteration_time, table.column("iteration_time"));
  columns.gpus = gpus;
  columns.submitted = submitted;
  columns.iterations = iterations;
  columns.model = model;
  columns.iteration_time = iteration_time;
  columns.id = table.find_column("job_id");
  for (std::size_t i = 0; i < columns.resources.size(); ++i)
    columns.resources[i] = table.find_column(fmt::format("resource_time_{}", i));
  return columns;
}

Result<TraceJob> parse_job(const CsvRow& row, std::size_t index, const Columns& columns,
                           const ClusterShape& cluster) {
  TraceJob job;
  job.line = row.line();
  job.id = columns.id ? std::string(trim(row.text(*columns.id))) : std::to_string(index);
  if (job.id.empty()) return row.wrong("job_id is empty; give every job an id of its own");
  DIVVY_TRY(gpus, row.count(columns.gpus, 1));
  if (gpus > cluster.gpus())
    return row.wrong(
        "num_gpu is {}, but the cluster has {} GPUs ({} nodes of {}); use a larger one", gpus,
        cluster.gpus(), cluster.nodes, cluster.gpus_per_node);
  DIVVY_TRY(submitted_ms, row.count(columns.submitted, 0, kLongestMs));
  DIVVY_TRY(iterations, row.count(columns.iterations, 1, kIterationsMax));
  DIVVY_TRY(iteration_ms, row.number(columns.iteration_time));
  for (std::size_t i = 0; i < columns.resources.size(); ++i) {
    if (!columns.resources[i]) continue;
    DIVVY_TRY(busy_ms, row.number(*columns.resources[i], static_cast<double>(kLongestMs)));
    job.resource_ms[i] = busy_ms;
  }
  job.model = std::string(trim(row.text(columns.model)));
  job.gpus = static_cast<std::uint32_t>(gpus);
  job.submitted_s = static_cast<double>(submitted_ms) / 1000;
  job.iteration_ms = iteration_ms;
  job.work_s = static_cast<double>(iterations) * iteration_ms * kProfileFactor / 1000;
  if (!(job.work_s > 0))
    return row.wrong("iteration_time is {}, so the job has no work; it has to be above 0",
                     quote_typed(row.text(columns.iteration_time)));
  if (job.work_s > static_cast<double>(kLongestMs) / 1000)
    return row.wrong(
        "iterations x iteration_time is more than a century of work; are the units "
        "right (iteration_time is in milliseconds)?");
  return job;
}

}  // namespace

Status check_shape(const ClusterShape& shape) {
  const std::uint64_t gpus = std::uint64_t{shape.nodes} * shape.gpus_per_node;
  if (gpus == 0)
    return err(ErrorCode::kInvalidArgument,
               "a cluster of {} nodes with {} GPUs each has no GPU; both have to be at least 1",
               shape.nodes, shape.gpus_per_node);
  if (gpus > 1'000'000)
    return err(ErrorCode::kOutOfRange,
               "a cluster of {} nodes with {} GPUs each is larger than the million GPUs that are "
               "simulated; use a smaller one",
               shape.nodes, shape.gpus_per_node);
  return {};
}

Result<JobTrace> parse_job_trace(const CsvTable& table, const ClusterShape& cluster) {
  DIVVY_RETURN_IF_ERROR(check_shape(cluster));
  DIVVY_TRY(columns, find_columns(table));
  JobTrace trace;
  trace.name = table.name();
  trace.jobs.reserve(table.size());
  std::unordered_map<std::string, std::size_t> lines;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.row(i);
    DIVVY_TRY(job, parse_job(row, i, columns, cluster));
    const auto [other, fresh] = lines.try_emplace(job.id, job.line);
    if (!fresh)
      return row.wrong("job_id {} was already used on line {}; give every job an id of its own",
                       quote_typed(job.id), other->second);
    trace.jobs.push_back(std::move(job));
  }
  if (trace.jobs.empty())
    return err(ErrorCode::kInvalidArgument, "{}:1: there are no jobs below the column names",
               escape_for_terminal(trace.name));
  std::sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return std::tie(a.submitted_s, a.line) < std::tie(b.submitted_s, b.line);
  });
  return trace;
}

Result<JobTrace> read_job_trace(const std::string& path, const ClusterShape& cluster) {
  DIVVY_RETURN_IF_ERROR(check_shape(cluster));
  DIVVY_TRY(table, CsvTable::read(path));
  return parse_job_trace(table, cluster);
}

double restart_cost_s(std::uint32_t gpus, std::string_view model) {
  struct Row {
    std::string_view model;
    std::array<double, 6> seconds;  // For 1, 2, 4, 8, 16 and 32 GPUs.
  };
  static constexpr std::array<Row, 8> kMeasured{{{"vgg16", {7, 7, 8, 9, 9, 10}},
                                                 {"vgg19", {7, 7, 8, 9, 10, 10}},
                                                 {"resnet18", {4, 5, 5, 7, 7, 7}},
                                                 {"shufflenet", {4, 4, 5, 5, 7, 8}},
                                                 {"bert", {10, 10, 10, 10, 10, 10}},
                                                 {"gpt2", {10, 10, 10, 10, 10, 10}},
                                                 {"a2c", {38, 39, 39, 46, 46, 46}},
                                                 {"dqn", {5, 5, 6, 6, 8, 8}}}};
  constexpr double kUnknownModel = 10;
  for (const auto& row : kMeasured) {
    if (!model.starts_with(row.model)) continue;
    std::size_t size = 0;
    while (size + 1 < row.seconds.size() && (std::uint32_t{1} << size) < gpus) ++size;
    return row.seconds[size];
  }
  return kUnknownModel;
}

}  // namespace divvy::sim
