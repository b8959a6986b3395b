// Iterations of one kind, at moments that a schedule gives, with the end of each on the monotonic
// clock: what a training loop beside others got of the GPU, and when.

#include <algorithm>
#include <deque>
#include <memory>

#include "gpuload/calibrate.h"
#include "gpuload/iteration.h"
#include "gpuload/modes.h"
#include "gpuload/stop.h"
#include "gpuload/work_bins.h"

namespace divvy::gpuload {
namespace {

constexpr uint64_t kBinNs = 100'000'000;

// The iterations in flight and the ends of those that are done.
class Loop {
 public:
  Loop(const Session& session, const LoopOptions& options, Iteration& iteration)
      : options_(options), iteration_(iteration), anchor_(session) {
    const unsigned flags = options.spin_wait ? CU_EVENT_DEFAULT : CU_EVENT_BLOCKING_SYNC;
    for (unsigned i = 0; i < options.depth; ++i) {
      spare_.push_back(std::make_unique<Event>(session, flags));
    }
    // The end of an iteration is an event; this one ties events to the host's clock.
    iteration.record_end(anchor_);
    anchor_.synchronize();
    anchor_ns_ = monotonic_ns();
  }

  void run(uint64_t start_ns) {
    start_ns_ = start_ns;
    uint64_t submitted = 0;
    while (!stop_requested()) {
      const uint64_t now_ns = monotonic_ns();
      const uint64_t elapsed_ns = now_ns < start_ns ? 0 : now_ns - start_ns;
      const auto next_ns = options_.schedule.next_work(elapsed_ns);
      if (!next_ns) break;
      if (now_ns < start_ns + *next_ns) {
        drain();
        sleep_until(start_ns + *next_ns);
        continue;
      }
      if (spare_.empty()) retire();
      submit(now_ns);
      ++submitted;
      if (options_.sync_every != 0 && submitted % options_.sync_every == 0) drain();
    }
    drain();
  }

  void report(Report& report) {
    const uint64_t iterations = iteration_us_.size();
    report.set("iterations", iterations);
    report.set("iteration_us", summarize(std::move(iteration_us_)));
    report.set("bin_ms", kBinNs / 1'000'000);
    report.set("iterations_in_bin", bins_.iterations());
    report.set("ends_ms", ends_ms_);
  }

 private:
  struct Submitted {
    uint64_t at_ns;
    std::unique_ptr<Event> end;
  };

  void submit(uint64_t now_ns) {
    iteration_.submit(Iteration::Pace::kAsAsked);
    auto end = std::move(spare_.back());
    spare_.pop_back();
    iteration_.record_end(*end);
    in_flight_.push_back({now_ns, std::move(end)});
  }

  void retire() {
    Submitted oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    oldest.end->synchronize();
    const uint64_t begin_ns = std::max({oldest.at_ns, last_end_ns_, start_ns_});
    const auto end_us = std::max(0.0, oldest.end->us_since(anchor_));
    last_end_ns_ = std::max(begin_ns, anchor_ns_ + static_cast<uint64_t>(end_us * 1000));
    spare_.push_back(std::move(oldest.end));
    iteration_us_.push_back(static_cast<double>(last_end_ns_ - begin_ns) / 1e3);
    bins_.add(begin_ns - start_ns_, last_end_ns_ - start_ns_);
    if (ends_ms_.size() < options_.keep) {
      ends_ms_.push_back(static_cast<double>(last_end_ns_ - start_ns_) / 1e6);
    }
  }

  void drain() {
    while (!in_flight_.empty()) retire();
  }

  const LoopOptions& options_;
  Iteration& iteration_;
  Event anchor_;
  uint64_t anchor_ns_ = 0;
  uint64_t start_ns_ = 0;
  uint64_t last_end_ns_ = 0;
  std::vector<std::unique_ptr<Event>> spare_;
  std::deque<Submitted> in_flight_;
  std::vector<double> iteration_us_;
  std::vector<double> ends_ms_;
  WorkBins bins_{kBinNs};
};

}  // namespace

std::string_view to_string(Body body) {
  switch (body) {
    case Body::kKernels:
      return "kernels";
    case Body::kCopy:
      return "copy";
    case Body::kChain:
      return "chain";
  }
  return "unknown";
}

void run_loop(const Session& session, const LoopOptions& options, Report& report) {
  const IterationOptions& what = options.iteration;
  double rate = options.iterations_per_us;
  if (rate <= 0 && what.body != Body::kCopy) rate = calibrate_iterations_per_us(session, false);
  Iteration iteration(session, what, rate);
  iteration.submit(Iteration::Pace::kWithoutCpuTime);  // the first launch loads the kernel
  const double cost_us = options.measure_cost ? iteration.measure_cost_us() : 0;
  Loop loop(session, options, iteration);
  const uint64_t start_ns = start_moment(options.start);
  const auto ready_ns = static_cast<int64_t>(monotonic_ns() - start_ns);
  loop.run(start_ns);

  report.set("body", std::string(to_string(what.body)));
  report.set("us", what.us);
  report.set("kernels", what.kernels);
  report.set("cpu_us", what.cpu_us);
  report.set("sync_every", options.sync_every);
  report.set("depth", options.depth);
  report.set("iterations_per_us", rate);
  report.set("gpu_us_per_iteration", cost_us);
  report.set("start_ns", start_ns);
  report.set("ready_ms", static_cast<double>(ready_ns) / 1e6);
  loop.report(report);
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
