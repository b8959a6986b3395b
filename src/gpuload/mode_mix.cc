// Launches, copies and allocations all at once, for as long as nobody ends it: the process that
// tests kill in the middle.

#include <unistd.h>

#include <deque>
#include <exception>
#include <limits>
#include <random>
#include <thread>

#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

struct Outcome {
  uint64_t launches = 0;
  uint64_t copies = 0;
  uint64_t allocations = 0;
  uint64_t refused = 0;
  std::exception_ptr failure;
};

// The real rate is not measured: a run that may be killed at any moment should start at once.
constexpr double kRoughIterationsPerUs = 200;

class Mixer {
 public:
  Mixer(const Session& session, const MixOptions& options, unsigned index)
      : cu_(session.cu),
        options_(options),
        random_(options.seed * 7919 + index),
        stream_(session),
        buffer_(session, kBytes),
        host_(kBytes),
        spin_(session, LaunchKind::kPlain, session.spin, spin_geometry(session, false),
              {static_cast<uint64_t>(options.us * kRoughIterationsPerUs), buffer_.get()}) {}

  ~Mixer() {
    cu_.cuStreamSynchronize(stream_.get());
    for (const CUdeviceptr pointer : held_) cu_.cuMemFree_v2(pointer);
  }
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  void step(Outcome& outcome) {
    switch (random_() % 8) {
      case 0:
        allocate(outcome);
        break;
      case 1:
        free_one();
        break;
      case 2:
        CU_CALL(cu_, cuMemcpyHtoDAsync_v2, buffer_.get(), host_.data(), kBytes, stream_.get());
        outcome.copies += 1;
        break;
      case 3:
        allocate_async(outcome);
        break;
      case 4:
        stream_.synchronize();
        break;
      default:
        spin_.launch(stream_.get());
        outcome.launches += 1;
    }
  }

 private:
  static constexpr uint64_t kBytes = 1ULL << 20U;
  static constexpr size_t kMostHeld = 8;

  void allocate(Outcome& outcome) {
    if (held_.size() >= kMostHeld) return free_one();
    CUdeviceptr pointer = 0;
    if (cu_.cuMemAlloc_v2(&pointer, options_.chunk) == CUDA_SUCCESS) {
      held_.push_back(pointer);
      outcome.allocations += 1;
    } else {
      outcome.refused += 1;
    }
  }

  void free_one() {
    if (held_.empty()) return;
    CU_CALL(cu_, cuMemFree_v2, held_.back());
    held_.pop_back();
  }

  void allocate_async(Outcome& outcome) {
    CUdeviceptr pointer = 0;
    if (cu_.cuMemAllocAsync(&pointer, options_.chunk, stream_.get()) != CUDA_SUCCESS) {
      outcome.refused += 1;
      return;
    }
    CU_CALL(cu_, cuMemFreeAsync, pointer, stream_.get());
    outcome.allocations += 1;
  }

  const DriverApi& cu_;
  const MixOptions& options_;
  std::mt19937_64 random_;
  Stream stream_;
  DeviceBuffer buffer_;
  std::vector<unsigned char> host_;
  KernelLaunch spin_;
  std::vector<CUdeviceptr> held_;
};

}  // namespace

void run_mix(const Session& session, const MixOptions& options, Report& report) {
  const uint64_t end = options.seconds > 0
                           ? monotonic_ns() + static_cast<uint64_t>(options.seconds * 1e9)
                           : std::numeric_limits<uint64_t>::max();
  std::deque<Outcome> outcomes(options.threads);
  std::vector<std::thread> threads;
  threads.reserve(options.threads);
  for (unsigned i = 0; i < options.threads; ++i) {
    threads.emplace_back([&session, &options, &outcomes, end, i] {
      try {
        session.bind();
        Mixer mixer(session, options, i);
        while (monotonic_ns() < end && !stop_requested()) mixer.step(outcomes[i]);
      } catch (...) {
        outcomes[i].failure = std::current_exception();
      }
    });
  }
  // Whoever started this waits for the line before it does what it came to do.
  constexpr char kReady[] = "ready\n";
  if (write(STDERR_FILENO, kReady, sizeof kReady - 1) < 0) {
    // Nobody reads; the run goes on all the same.
  }
  for (std::thread& thread : threads) thread.join();
  Outcome all;
  for (const Outcome& outcome : outcomes) {
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    all.launches += outcome.launches;
    all.copies += outcome.copies;
    all.allocations += outcome.allocations;
    all.refused += outcome.refused;
  }
  report.set("threads", options.threads);
  report.set("launches", all.launches);
  report.set("copies", all.copies);
  report.set("allocations", all.allocations);
  report.set("refused", all.refused);
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
