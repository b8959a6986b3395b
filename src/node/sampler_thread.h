// Fills the board with a sample of every GPU, again and again, on a thread of its own. A stuck
// driver blocks this thread and with it the end of the daemon: it stands in until samples are taken
// in a process of their own.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "node/gpu_sample.h"
#include "nvml/library.h"

namespace divvy::node {

class SamplerThread {
 public:
  // Takes the first samples at once. All three outlive it.
  SamplerThread(nvml::Library& library, SampleBoard& board, Clock& clock, Duration period);
  ~SamplerThread();
  SamplerThread(const SamplerThread&) = delete;
  SamplerThread& operator=(const SamplerThread&) = delete;

 private:
  struct Gpu {
    nvml::Device device;
    model::GpuIndex index;
    model::GpuUuid uuid;
  };

  void run(Duration period);

  nvml::Library& library_;
  SampleBoard& board_;
  Clock& clock_;
  std::vector<Gpu> gpus_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // Last: it uses all of the above
};

}  // namespace divvy::node
