// Feeds any bytes to the reader of job traces, and replays what it accepts: whatever a trace says,
// every job ends, and not before it was submitted and its work was done.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "place/job_order.h"
#include "sim/job_replay.h"
#include "sim/job_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const sim::ClusterShape cluster{.nodes = 2, .gpus_per_node = 4};
  const auto table = sim::CsvTable::parse(text, "input");
  if (!table) return 0;
  const auto trace = sim::parse_job_trace(*table, cluster);
  if (!trace) {
    DIVVY_CHECK(trace.error().message.starts_with("input:"), "{}", trace.error().message);
    return 0;
  }
  // A trace of a century is legal, but a policy that looks at every doubling ends soon all the
  // same.
  for (const auto& info : place::job_orders()) {
    auto order = place::make_job_order(info.name, cluster.gpus());
    DIVVY_CHECK(order.has_value());
    sim::ReplayOptions options;
    options.cluster = cluster;
    const auto result = sim::replay_jobs(*trace, **order, options);
    for (std::size_t i = 0; i < trace->jobs.size(); ++i) {
      const auto& job = trace->jobs[i];
      const double least = job.submitted_s + job.work_s;
      DIVVY_CHECK(result.jobs[i].ended_s >= least - 1e-6 * (1 + least), "{}: job {} ended at {}",
                  info.name, job.id, result.jobs[i].ended_s);
    }
  }
  return 0;
}
