#include "node/sampler_thread.h"

namespace divvy::node {

SamplerThread::SamplerThread(nvml::Library& library, SampleBoard& board, Clock& clock,
                             Duration period)
    : library_(library), board_(board), clock_(clock) {
  const auto count = library_.device_count();
  for (std::uint32_t i = 0; count && i < *count; ++i) {
    const auto device = library_.device(i);
    if (!device) continue;
    const auto uuid = library_.uuid(*device).and_then(model::GpuUuid::parse);
    if (uuid) gpus_.push_back({*device, model::GpuIndex(i), *uuid});
  }
  thread_ = std::thread([this, period] { run(period); });
}

SamplerThread::~SamplerThread() {
  stopping_ = true;
  clock_.wake();
  thread_.join();
}

void SamplerThread::run(Duration period) {
  const auto stop = [this] { return stopping_.load(); };
  do {
    for (const Gpu& gpu : gpus_) {
      board_.put(take_sample(library_, gpu.device, gpu.index, gpu.uuid, clock_.wall_now()));
    }
  } while (!clock_.wait_until(clock_.now() + period, stop));
}

}  // namespace divvy::node
