// One iteration of a load, submitted again and again: kernels in one stream, copies in device
// memory, or kernels that go round several streams and wait for each other by events. Used by one
// thread.
#pragma once

#include <memory>
#include <vector>

#include "gpuload/kernel_launch.h"
#include "gpuload/modes.h"

namespace divvy::gpuload {

class Iteration {
 public:
  Iteration(const Session& session, const IterationOptions& options, double iterations_per_us);

  enum class Pace { kAsAsked, kWithoutCpuTime };
  // Never waits for the GPU.
  void submit(Pace pace);
  // Records the end of what was submitted so far.
  void record_end(const Event& event) const { event.record(streams_[next_before()]->get()); }
  // GPU time of one iteration in microseconds, with nothing between its kernels but what the GPU
  // itself needs. Waits; right only while nobody else uses the GPU.
  [[nodiscard]] double measure_cost_us();

 private:
  [[nodiscard]] size_t next_before() const {
    return (next_ + streams_.size() - 1) % streams_.size();
  }

  const Session& session_;
  IterationOptions options_;
  DeviceBuffer sink_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;  // of copies
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> links_;  // one behind each stream of a chain
  std::unique_ptr<KernelLaunch> kernel_;
  size_t next_ = 0;  // the stream that is next
};

}  // namespace divvy::gpuload
