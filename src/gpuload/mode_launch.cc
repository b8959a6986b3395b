// What a launch costs the calling thread. Empty kernels in short bursts with a wait after each
// burst, so that the driver's queue never fills and no launch waits for the GPU. Every second burst
// is timed as a whole, which keeps the clock out of the mean; the others are timed call by call for
// the percentiles.

#include <algorithm>
#include <string>

#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

constexpr uint64_t kBurst = 256;

void measure(const Session& session, LaunchKind kind, uint64_t count, Report& report) {
  const Stream stream(session);
  KernelLaunch empty(session, kind, session.empty, {1, 32}, {});
  for (uint64_t i = 0; i < kBurst; ++i) empty.launch(stream.get());
  stream.synchronize();

  std::vector<double> call_ns;
  double burst_ns = 0;
  uint64_t in_bursts = 0;
  uint64_t launched = 0;
  const uint64_t began = monotonic_ns();
  for (uint64_t burst = 0; launched < count && !stop_requested(); ++burst) {
    const bool whole = burst % 2 == 0;
    const uint64_t before = monotonic_ns();
    CUresult code = CUDA_SUCCESS;
    for (uint64_t i = 0; i < kBurst && code == CUDA_SUCCESS; ++i) {
      const uint64_t call = whole ? 0 : monotonic_ns();
      code = empty.try_launch(stream.get());
      if (!whole) call_ns.push_back(static_cast<double>(monotonic_ns() - call));
    }
    if (code != CUDA_SUCCESS) {
      raise_failure(session.cu, std::string(to_string(kind)).c_str(), code);
    }
    if (whole) {
      burst_ns += static_cast<double>(monotonic_ns() - before);
      in_bursts += kBurst;
    }
    stream.synchronize();
    launched += kBurst;
  }
  const double wall_s = static_cast<double>(monotonic_ns() - began) / 1e9;
  report.set("launch", std::string(to_string(kind)));
  report.set("launches", launched);
  report.set("launches_per_second", wall_s > 0 ? static_cast<double>(launched) / wall_s : 0.0);
  report.set("cpu_ns_mean", burst_ns / static_cast<double>(std::max<uint64_t>(in_bursts, 1)));
  report.set("cpu_ns", summarize(std::move(call_ns)));
}

}  // namespace

void run_launch(const Session& session, const LaunchOptions& options, Report& report) {
  for (const LaunchKind kind : kLaunchKinds) {
    measure(session, kind, options.count, report.append("flavours"));
  }
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
