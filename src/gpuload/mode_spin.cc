// Kernels of equal length, back to back, with a bounded number in flight. An event after each
// launch tells when it ended; the time between two neighbouring ends is one iteration, whatever
// made it wait.

#include <algorithm>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <thread>

#include "gpuload/calibrate.h"
#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

struct Window {
  uint64_t measure_from_ns = 0;
  uint64_t end_ns = std::numeric_limits<uint64_t>::max();
};

// One stream and the launches in flight on it.
class Lane {
 public:
  Lane(const Session& session, const SpinOptions& options, uint64_t iterations)
      : sink_(session, 4),
        stream_(session),
        spin_(session, options.launch, session.spin, spin_geometry(session, options.narrow),
              {iterations, sink_.get()}),
        depth_(options.depth) {
    // One more than fit in flight, since an iteration is measured from the end of the one before
    // it.
    for (unsigned i = 0; i < options.depth + 1; ++i) {
      ends_.push_back(std::make_unique<Event>(session, CU_EVENT_BLOCKING_SYNC));
    }
    ends_[0]->record(stream_.get());
  }

  // Launches once; returns the nanoseconds that the launch call took.
  uint64_t launch(const Window& window) {
    if (launched_ - retired_ == depth_) retire(window);
    const uint64_t before = monotonic_ns();
    spin_.launch(stream_.get());
    const uint64_t after = monotonic_ns();
    ++launched_;
    end_of(launched_).record(stream_.get());
    return after - before;
  }

  void drain(const Window& window) {
    while (retired_ < launched_) retire(window);
  }

  [[nodiscard]] uint64_t launched() const { return launched_; }
  [[nodiscard]] const std::vector<double>& iterations_us() const { return iterations_us_; }

 private:
  Event& end_of(uint64_t launch) { return *ends_[launch % ends_.size()]; }

  void retire(const Window& window) {
    const uint64_t launch = retired_ + 1;
    end_of(launch).synchronize();
    const double us = end_of(launch).us_since(end_of(launch - 1));
    retired_ = launch;
    if (monotonic_ns() >= window.measure_from_ns) iterations_us_.push_back(us);
  }

  DeviceBuffer sink_;
  Stream stream_;
  KernelLaunch spin_;
  unsigned depth_;
  std::vector<std::unique_ptr<Event>> ends_;
  uint64_t launched_ = 0;
  uint64_t retired_ = 0;
  std::vector<double> iterations_us_;
};

struct Worker {
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<double> launch_ns;
  std::exception_ptr failure;

  void run(const Session& session, const SpinOptions& options, const Window& window) {
    session.bind();
    const uint64_t count =
        options.count != 0 ? options.count : std::numeric_limits<uint64_t>::max();
    while (lanes.back()->launched() < count && !stop_requested()) {
      for (auto& lane : lanes) {
        launch_ns.push_back(static_cast<double>(lane->launch(window)));
      }
      if (monotonic_ns() >= window.end_ns) break;
    }
    for (auto& lane : lanes) lane->drain(window);
  }
};

Window window_from_now(const SpinOptions& options) {
  Window window;
  const auto to_ns = [](double seconds) { return static_cast<uint64_t>(seconds * 1e9); };
  window.measure_from_ns = monotonic_ns() + to_ns(options.warmup_seconds);
  double seconds = options.seconds;
  if (seconds <= 0 && options.count == 0) seconds = 5;
  if (seconds > 0) window.end_ns = window.measure_from_ns + to_ns(seconds);
  return window;
}

void describe(const SpinOptions& options, double iterations_per_us, Report& report) {
  report.set("us", options.us);
  report.set("launch", std::string(to_string(options.launch)));
  report.set("streams", options.streams);
  report.set("threads", options.threads);
  report.set("depth", options.depth);
  report.set("narrow", options.narrow);
  report.set("iterations_per_us", iterations_per_us);
}

}  // namespace

void run_spin(const Session& session, const SpinOptions& options, Report& report) {
  const double rate = options.iterations_per_us > 0
                          ? options.iterations_per_us
                          : calibrate_iterations_per_us(session, options.narrow);
  const auto iterations = static_cast<uint64_t>(std::max(1.0, options.us * rate));
  describe(options, rate, report);

  std::deque<Worker> workers(options.threads);
  for (Worker& worker : workers) {
    for (unsigned i = 0; i < options.streams; ++i) {
      worker.lanes.push_back(std::make_unique<Lane>(session, options, iterations));
    }
  }
  const Window window = window_from_now(options);
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (Worker& worker : workers) {
    threads.emplace_back([&] {
      try {
        worker.run(session, options, window);
      } catch (...) {
        worker.failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t ended_ns = monotonic_ns();

  std::vector<double> iterations_us;
  std::vector<double> launch_ns;
  double longest_busy_us = 0;
  for (Worker& worker : workers) {
    if (worker.failure) std::rethrow_exception(worker.failure);
    launch_ns.insert(launch_ns.end(), worker.launch_ns.begin(), worker.launch_ns.end());
    for (auto& lane : worker.lanes) {
      const auto& samples = lane->iterations_us();
      double busy_us = 0;
      for (const double us : samples) busy_us += us;
      longest_busy_us = std::max(longest_busy_us, busy_us);
      iterations_us.insert(iterations_us.end(), samples.begin(), samples.end());
    }
  }
  const double wall_us = ended_ns <= window.measure_from_ns
                             ? 0.0
                             : static_cast<double>(ended_ns - window.measure_from_ns) / 1000.0;
  const auto launches = static_cast<double>(iterations_us.size());
  const double work_us = launches * options.us;
  std::vector<double> slowdowns;
  slowdowns.reserve(iterations_us.size());
  for (const double us : iterations_us) slowdowns.push_back(us / options.us);

  report.set("launches", uint64_t{iterations_us.size()});
  report.set("wall_us", wall_us);
  report.set("launches_per_second", wall_us > 0 ? launches / wall_us * 1e6 : 0.0);
  // What the kernels would have taken alone, and which part of the wall time that is.
  report.set("work_us", work_us);
  report.set("work_share", wall_us > 0 ? work_us / wall_us : 0.0);
  // From the first to the last event of the busiest stream.
  report.set("gpu_busy_us", longest_busy_us);
  report.set("launch_cpu_ns", summarize(std::move(launch_ns)));
  report.set("iteration_us", summarize(std::move(iterations_us)));
  report.set("slowdown", summarize(std::move(slowdowns)));
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
