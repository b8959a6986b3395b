// What gpuload can be asked to do. Each mode is one function in mode_<name>.cc that fills the
// report; it is called by the main thread with the context current, and joins every thread it
// starts. Failures of the driver are thrown (driver_api.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuload/kernel_launch.h"
#include "gpuload/report.h"
#include "gpuload/schedule.h"
#include "gpuload/session.h"

namespace divvy::gpuload {

void run_info(const Session& session, Report& report);

struct SpinOptions {
  double us = 500;
  uint64_t count = 0;  // launches on each stream; 0: until the time is over
  double seconds = 0;  // 0 and no count: 5 s
  double warmup_seconds = 0;
  unsigned streams = 1;  // of each thread
  unsigned threads = 1;
  unsigned depth = 16;  // launches in flight on each stream
  LaunchKind launch = LaunchKind::kPlain;
  bool narrow = false;
  double iterations_per_us = 0;  // 0: measure
};
void run_spin(const Session& session, const SpinOptions& options, Report& report);

enum class Body { kKernels, kCopy, kChain };
// "kernels", "copy", "chain"
std::string_view to_string(Body body);

struct IterationOptions {
  Body body = Body::kKernels;
  double us = 500;
  unsigned kernels = 1;
  uint64_t bytes = 256ULL << 20U;  // of a copy
  unsigned streams = 4;            // of a chain
  double cpu_us = 0;               // of the CPU's time after each kernel
};
struct LoopOptions {
  IterationOptions iteration;
  unsigned depth = 16;      // iterations in flight
  unsigned sync_every = 0;  // wait for the GPU after so many iterations; 0: never
  bool spin_wait = false;
  bool measure_cost = false;
  std::string start = "now";
  Schedule schedule = Schedule::for_seconds(5);
  uint64_t keep = 100'000;  // ends in the report
  double iterations_per_us = 0;
};
void run_loop(const Session& session, const LoopOptions& options, Report& report);

struct LaunchOptions {
  uint64_t count = 50'000;
};
void run_launch(const Session& session, const LaunchOptions& options, Report& report);

struct CostOptions {
  uint64_t rounds = 400;  // of 128 calls each way
};
void run_cost(const Session& session, const CostOptions& options, Report& report);

struct PoissonOptions {
  double rate = 200;
  double us = 1800;
  double seconds = 5;
  bool graph = false;
  unsigned kernels = 1;  // the work of a request is cut into so many
  uint64_t seed = 1;
  bool spin_wait = false;
  double iterations_per_us = 0;
  std::string start = "now";
  std::optional<Schedule> schedule;  // requests outside of its spans are left out
  uint64_t moments = 0;              // so many requests singly in the report
};
void run_poisson(const Session& session, const PoissonOptions& options, Report& report);

struct MemoryOptions {
  uint64_t bytes = 1ULL << 30U;
  uint64_t count = 20;
};
void run_memory(const Session& session, const MemoryOptions& options, Report& report);

enum class Direction { kHostToDevice, kDeviceToHost, kDeviceToDevice };
struct CopyOptions {
  uint64_t bytes = 256ULL << 20U;
  Direction direction = Direction::kHostToDevice;
  bool pinned = true;
  uint64_t count = 20;
};
void run_copy(const Session& session, const CopyOptions& options, Report& report);

struct GraphOptions {
  uint64_t count = 1000;
};
void run_graph(const Session& session, const GraphOptions& options, Report& report);

struct AllocOptions {
  std::vector<std::string> families = {"plain"};
  uint64_t chunk = 1ULL << 30U;
  uint64_t limit = 0;  // 0: until refused
  bool exact = false;  // after a refusal go on with halved chunks, down to 2 MiB
  double hold_seconds = 0;
  uint64_t pairs = 0;  // time so many allocate-and-free pairs first
};
void run_alloc(const Session& session, const AllocOptions& options, Report& report);
// The other end of the family `ipc`: allocates on request and hands out handles over a pipe.
void serve_ipc_memory(const Session& session, uint64_t chunk);

// Starts the driver itself, since what it shows depends on who did so first.
void run_fork(const DriverApi& api, int ordinal, Report& report);

struct ThreadsOptions {
  unsigned threads = 8;
  uint64_t rounds = 200;
  bool per_thread_stream = false;
  uint64_t bytes = 1ULL << 20U;
};
void run_threads(const Session& session, const ThreadsOptions& options, Report& report);

struct MixOptions {
  double seconds = 0;  // 0: until it is ended from outside
  unsigned threads = 2;
  uint64_t chunk = 64ULL << 20U;
  double us = 200;
  uint64_t seed = 1;
};
void run_mix(const Session& session, const MixOptions& options, Report& report);

}  // namespace divvy::gpuload
