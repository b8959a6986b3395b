#include "gpuload/iteration.h"

#include <algorithm>

#include "gpuload/kernels.h"

namespace divvy::gpuload {
namespace {

constexpr double kMeasuredUs = 30'000;
constexpr int kRepeats = 3;

void use_cpu(double us) {
  const uint64_t until = monotonic_ns() + static_cast<uint64_t>(us * 1000);
  while (monotonic_ns() < until) {
  }
}

}  // namespace

Iteration::Iteration(const Session& session, const IterationOptions& options,
                     double iterations_per_us)
    : session_(session), options_(options), sink_(session, 4) {
  const bool chain = options.body == Body::kChain;
  for (unsigned i = 0; i < (chain ? options.streams : 1U); ++i) {
    streams_.push_back(std::make_unique<Stream>(session));
    if (chain) links_.push_back(std::make_unique<Event>(session, CU_EVENT_DISABLE_TIMING));
  }
  if (options.body == Body::kCopy) {
    for (int i = 0; i < 2; ++i) {
      buffers_.push_back(std::make_unique<DeviceBuffer>(session, options.bytes));
    }
    const Geometry geometry{session.multiprocessors * 8, kCopyThreads};
    kernel_ = std::make_unique<KernelLaunch>(
        session, LaunchKind::kPlain, session.stream_copy, geometry,
        std::vector<uint64_t>{buffers_[0]->get(), buffers_[1]->get(), options.bytes / 16});
    return;
  }
  const auto loops = static_cast<uint64_t>(std::max(1.0, options.us * iterations_per_us));
  kernel_ = std::make_unique<KernelLaunch>(session, LaunchKind::kPlain, session.spin,
                                           spin_geometry(session, false),
                                           std::vector<uint64_t>{loops, sink_.get()});
}

void Iteration::submit(Pace pace) {
  for (unsigned i = 0; i < options_.kernels; ++i) {
    const Stream& stream = *streams_[next_];
    if (!links_.empty()) {
      CU_CALL(session_.cu, cuStreamWaitEvent, stream.get(), links_[next_before()]->get(), 0U);
    }
    kernel_->launch(stream.get());
    if (!links_.empty()) links_[next_]->record(stream.get());
    next_ = (next_ + 1) % streams_.size();
    if (pace == Pace::kAsAsked && options_.cpu_us > 0) use_cpu(options_.cpu_us);
  }
}

double Iteration::measure_cost_us() {
  const Event start(session_);
  const Event end(session_);
  const auto measure = [&](unsigned count) {
    record_end(start);
    for (unsigned i = 0; i < count; ++i) submit(Pace::kWithoutCpuTime);
    record_end(end);
    end.synchronize();
    return end.us_since(start) / count;
  };
  const double once = std::max(1.0, measure(2));
  const auto count = static_cast<unsigned>(std::clamp(kMeasuredUs / once, 2.0, 1000.0));
  double least = measure(count);
  for (int i = 1; i < kRepeats; ++i) least = std::min(least, measure(count));
  return least;
}

}  // namespace divvy::gpuload
