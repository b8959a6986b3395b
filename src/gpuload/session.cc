#include "gpuload/session.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "gpuload/kernels.h"

namespace divvy::gpuload {

Session::Session(const DriverApi& api, int gpu) : cu(api), ordinal(gpu) {
  CU_CALL(cu, cuInit, 0U);
  int count = 0;
  CU_CALL(cu, cuDeviceGetCount, &count);
  if (gpu < 0 || gpu >= count) {
    throw NoDriver(fmt::format("there is no GPU {}: the driver shows {} GPU{}, numbered from 0",
                               gpu, count, count == 1 ? "" : "s"));
  }
  CU_CALL(cu, cuDeviceGet, &device, gpu);
  CU_CALL(cu, cuDevicePrimaryCtxRetain, &context, device);
  CU_CALL(cu, cuCtxSetCurrent, context);
  CU_CALL(cu, cuModuleLoadData, &module_, kKernelText);
  CU_CALL(cu, cuModuleGetFunction, &spin, module_, "spin");
  CU_CALL(cu, cuModuleGetFunction, &stream_copy, module_, "stream_copy");
  CU_CALL(cu, cuModuleGetFunction, &fill32, module_, "fill32");
  CU_CALL(cu, cuModuleGetFunction, &empty, module_, "empty");
  multiprocessors = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const auto resident =
      static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
  spin_blocks = multiprocessors * std::max(1U, resident / kSpinThreads);
}

Session::~Session() {
  if (module_ != nullptr) cu.cuModuleUnload(module_);
  if (context != nullptr) cu.cuDevicePrimaryCtxRelease_v2(device);
}

void Session::bind() const { CU_CALL(cu, cuCtxSetCurrent, context); }

int Session::attribute(CUdevice_attribute which) const {
  int value = 0;
  CU_CALL(cu, cuDeviceGetAttribute, &value, which, device);
  return value;
}

uint64_t Session::free_bytes() const {
  size_t free = 0;
  size_t total = 0;
  CU_CALL(cu, cuMemGetInfo_v2, &free, &total);
  return free;
}

Stream::Stream(const Session& session, unsigned flags) : session_(session) {
  CU_CALL(session.cu, cuStreamCreate, &stream_, flags);
}
Stream::~Stream() { session_.cu.cuStreamDestroy_v2(stream_); }
void Stream::synchronize() const { CU_CALL(session_.cu, cuStreamSynchronize, stream_); }

Event::Event(const Session& session, unsigned flags) : session_(session) {
  CU_CALL(session.cu, cuEventCreate, &event_, flags);
}
Event::~Event() { session_.cu.cuEventDestroy_v2(event_); }
void Event::record(CUstream stream) const { CU_CALL(session_.cu, cuEventRecord, event_, stream); }
void Event::synchronize() const { CU_CALL(session_.cu, cuEventSynchronize, event_); }
double Event::us_since(const Event& start) const {
  float milliseconds = 0;
  CU_CALL(session_.cu, cuEventElapsedTime, &milliseconds, start.event_, event_);
  return static_cast<double>(milliseconds) * 1000.0;
}

DeviceBuffer::DeviceBuffer(const Session& session, uint64_t bytes) : session_(session) {
  CU_CALL(session.cu, cuMemAlloc_v2, &pointer_, bytes);
}
DeviceBuffer::~DeviceBuffer() { session_.cu.cuMemFree_v2(pointer_); }

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace divvy::gpuload
