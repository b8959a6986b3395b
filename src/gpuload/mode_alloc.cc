// Takes memory, family by family, until the driver refuses, and sees that all of it comes back.

#include <time.h>

#include <algorithm>

#include "gpuload/alloc_families.h"
#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

constexpr uint64_t kFinest = 2ULL << 20U;

struct Taken {
  uint64_t bytes = 0;
  uint64_t chunks = 0;
  const char* stopped = "limit";
  CUresult refusal = CUDA_SUCCESS;
};

Taken take_until_refused(AllocFamily& family, const AllocOptions& options, uint64_t limit) {
  Taken taken;
  uint64_t chunk = options.chunk;
  while (!stop_requested()) {
    if (limit != 0) {
      if (taken.bytes >= limit) return taken;
      chunk = std::min(chunk, limit - taken.bytes);
    }
    uint64_t obtained = 0;
    const CUresult code = family.take(chunk, obtained);
    if (code == CUDA_SUCCESS) {
      taken.bytes += obtained;
      taken.chunks += 1;
      continue;
    }
    taken.refusal = code;
    taken.stopped = "refused";
    if (!options.exact || chunk / 2 < kFinest) return taken;
    chunk /= 2;
  }
  taken.stopped = "interrupted";
  return taken;
}

void hold(double seconds) {
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(seconds * 1e9);
  while (monotonic_ns() < end && !stop_requested()) {
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
}

void exhaust(const Session& session, const std::string& name, const AllocOptions& options,
             Report& report) {
  report.set("family", name);
  const uint64_t before = session.free_bytes();
  uint64_t at_peak = 0;
  uint64_t limit = options.limit;
  Taken taken;
  {
    const auto family = make_alloc_family(name, session);
    const uint64_t safe = family->safe_limit();
    if (safe != 0) limit = limit == 0 ? safe : std::min(limit, safe);
    taken = take_until_refused(*family, options, limit);
    at_peak = session.free_bytes();
    hold(options.hold_seconds);
    family->give_back();
  }
  CU_CALL(session.cu, cuCtxSynchronize);
  const uint64_t after = session.free_bytes();
  report.set("chunk_bytes", options.chunk);
  report.set("limit_bytes", limit);
  report.set("bytes", taken.bytes);
  report.set("chunks", taken.chunks);
  report.set("stopped", taken.stopped);
  report.set("error_code", static_cast<unsigned>(taken.refusal));
  report.set("error", session.cu.error_name(taken.refusal));
  report.set("free_before_bytes", before);
  report.set("free_at_peak_bytes", at_peak);
  report.set("free_after_bytes", after);
  // The driver keeps a few small pages for itself the first time a family is used.
  report.set("kept_bytes", before > after ? before - after : uint64_t{0});
  report.set("all_came_back", after + (64ULL << 20U) >= before);
}

void time_pairs(const Session& session, const AllocOptions& options, Report& report) {
  const DriverApi& cu = session.cu;
  std::vector<double> pair_ns;
  for (uint64_t i = 0; i < options.pairs && !stop_requested(); ++i) {
    CUdeviceptr pointer = 0;
    const uint64_t began = monotonic_ns();
    CU_CALL(cu, cuMemAlloc_v2, &pointer, options.chunk);
    CU_CALL(cu, cuMemFree_v2, pointer);
    pair_ns.push_back(static_cast<double>(monotonic_ns() - began));
  }
  report.set("alloc_free_pair_ns", summarize(std::move(pair_ns)));
}

}  // namespace

void run_alloc(const Session& session, const AllocOptions& options, Report& report) {
  if (options.pairs > 0) {
    time_pairs(session, options, report);
  } else {
    for (const std::string& name : options.families) {
      if (stop_requested()) break;
      exhaust(session, name, options, report.append("families"));
    }
  }
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
