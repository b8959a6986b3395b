// The two modes that move bytes: `memory` (a kernel that reads and writes device memory) and `copy`
// (the driver's own copies).

#include <algorithm>
#include <memory>

#include "gpuload/kernels.h"
#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

// Host memory of one of the two kinds.
class HostBuffer {
 public:
  HostBuffer(const Session& session, uint64_t bytes, bool pinned) : session_(session) {
    if (pinned) {
      CU_CALL(session.cu, cuMemHostAlloc, &pinned_, bytes, 0U);
    } else {
      pageable_.resize(bytes, 1);
    }
  }
  ~HostBuffer() {
    if (pinned_ != nullptr) session_.cu.cuMemFreeHost(pinned_);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* get() { return pinned_ != nullptr ? pinned_ : pageable_.data(); }

 private:
  const Session& session_;
  void* pinned_ = nullptr;
  std::vector<unsigned char> pageable_;
};

template <typename Once>
void measure(const Session& session, uint64_t bytes_moved, uint64_t count, Once&& once,
             Report& report) {
  const Stream stream(session);
  const Event start(session);
  const Event end(session);
  once(stream.get());
  stream.synchronize();
  std::vector<double> us;
  const uint64_t began = monotonic_ns();
  for (uint64_t i = 0; i < count && !stop_requested(); ++i) {
    start.record(stream.get());
    once(stream.get());
    end.record(stream.get());
    end.synchronize();
    us.push_back(end.us_since(start));
  }
  const double wall_us = static_cast<double>(monotonic_ns() - began) / 1e3;
  const Summary summary = summarize(std::move(us));
  const auto bytes = static_cast<double>(bytes_moved);
  report.set("count", summary.count);
  report.set("bytes_moved", bytes_moved);
  report.set("wall_us", wall_us);
  report.set("gb_per_second", summary.p50 > 0 ? bytes / summary.p50 / 1e3 : 0.0);
  report.set("us", summary);
  report.set("interrupted", stop_requested());
}

}  // namespace

void run_memory(const Session& session, const MemoryOptions& options, Report& report) {
  const uint64_t pieces = std::max<uint64_t>(options.bytes / 32, 1);
  const DeviceBuffer from(session, pieces * 16);
  const DeviceBuffer to(session, pieces * 16);
  CU_CALL(session.cu, cuMemsetD32_v2, from.get(), 0x5eedU, pieces * 4);
  KernelLaunch copy(session, LaunchKind::kPlain, session.stream_copy,
                    {session.multiprocessors * 16, kCopyThreads}, {to.get(), from.get(), pieces});
  measure(
      session, pieces * 32, options.count, [&](CUstream stream) { copy.launch(stream); }, report);
  uint32_t last = 0;
  CU_CALL(session.cu, cuMemcpyDtoH_v2, &last, to.get() + pieces * 16 - 4, sizeof last);
  report.set("correct", last == 0x5eedU);
}

void run_copy(const Session& session, const CopyOptions& options, Report& report) {
  const DriverApi& cu = session.cu;
  const DeviceBuffer device(session, options.bytes);
  const bool host_side = options.direction != Direction::kDeviceToDevice;
  std::unique_ptr<HostBuffer> host;
  std::unique_ptr<DeviceBuffer> other;
  if (host_side) {
    host = std::make_unique<HostBuffer>(session, options.bytes, options.pinned);
  } else {
    other = std::make_unique<DeviceBuffer>(session, options.bytes);
  }
  report.set("direction", options.direction == Direction::kHostToDevice   ? "h2d"
                          : options.direction == Direction::kDeviceToHost ? "d2h"
                                                                          : "d2d");
  report.set("pinned", host_side && options.pinned);
  measure(
      session, options.bytes, options.count,
      [&](CUstream stream) {
        switch (options.direction) {
          case Direction::kHostToDevice:
            CU_CALL(cu, cuMemcpyHtoDAsync_v2, device.get(), host->get(), options.bytes, stream);
            break;
          case Direction::kDeviceToHost:
            CU_CALL(cu, cuMemcpyDtoHAsync_v2, host->get(), device.get(), options.bytes, stream);
            break;
          case Direction::kDeviceToDevice:
            CU_CALL(cu, cuMemcpyDtoDAsync_v2, other->get(), device.get(), options.bytes, stream);
            break;
        }
      },
      report);
}

}  // namespace divvy::gpuload
