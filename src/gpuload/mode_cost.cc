// What a library in front of the driver adds to a call. The same call is made through the function
// that programs are given and through the driver's own export, by turns in one process, so that
// whatever else differs between two processes (where memory lies, which core, which clock) meets
// both. Without such a library the difference is what this way of measuring cannot resolve.

#include <algorithm>
#include <string>
#include <vector>

#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

// Few, so that what disturbs one burst (an interrupt, the driver's own threads) is in few of them.
constexpr uint64_t kBurst = 32;

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// `round` makes kBurst calls through one of the two tables and returns the nanoseconds of one.
template <typename Round>
void compare(const DriverApi& given, const DriverApi& own, uint64_t rounds, Round&& round,
             Report& report) {
  std::vector<double> through;
  std::vector<double> past;
  std::vector<double> added;
  for (uint64_t i = 0; i < rounds && !stop_requested(); ++i) {
    // Who comes first changes every time: the second finds warmer caches.
    const bool given_first = i % 2 == 0;
    const double first = round(given_first ? given : own);
    const double second = round(given_first ? own : given);
    through.push_back(given_first ? first : second);
    past.push_back(given_first ? second : first);
    added.push_back(through.back() - past.back());
  }
  report.set("calls", static_cast<uint64_t>(added.size()) * kBurst);
  report.set("through_ns", median(through));
  report.set("past_ns", median(past));
  report.set("added_ns", median(added));
}

void compare_launches(const Session& session, const DriverApi& own, LaunchKind kind,
                      uint64_t rounds, Report& report) {
  const Stream stream(session);
  KernelLaunch empty(session, kind, session.empty, {1, 32}, {});
  report.set("call", "launch " + std::string(to_string(kind)));
  compare(
      session.cu, own, rounds,
      [&](const DriverApi& api) {
        empty.call_through(api);
        const uint64_t began = monotonic_ns();
        for (uint64_t i = 0; i < kBurst; ++i) empty.launch(stream.get());
        const uint64_t ended = monotonic_ns();
        stream.synchronize();
        return static_cast<double>(ended - began) / kBurst;
      },
      report);
}

void compare_pairs(const DriverApi& given, const DriverApi& own, uint64_t bytes, uint64_t rounds,
                   Report& report) {
  report.set("call", "alloc and free of " + std::to_string(bytes >> 10U) + " KiB");
  compare(
      given, own, rounds,
      [bytes](const DriverApi& api) {
        const uint64_t began = monotonic_ns();
        for (uint64_t i = 0; i < kBurst; ++i) {
          CUdeviceptr pointer = 0;
          CU_CALL(api, cuMemAlloc_v2, &pointer, bytes);
          CU_CALL(api, cuMemFree_v2, pointer);
        }
        return static_cast<double>(monotonic_ns() - began) / kBurst;
      },
      report);
}

}  // namespace

void run_cost(const Session& session, const CostOptions& options, Report& report) {
  const DriverApi own = DriverApi::load_past_hooks();
  report.set("something_in_front", session.cu.cuLaunchKernel != own.cuLaunchKernel);
  for (const LaunchKind kind : kLaunchKinds) {
    compare_launches(session, own, kind, options.rounds, report.append("costs"));
  }
  for (const uint64_t bytes : {uint64_t{4} << 10U, uint64_t{2} << 20U}) {
    compare_pairs(session.cu, own, bytes, options.rounds, report.append("costs"));
  }
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
