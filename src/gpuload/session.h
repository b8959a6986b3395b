// One GPU made ready: the driver initialised, the primary context retained and current, the kernels
// loaded. Constructed by the main thread; other threads call bind() once before anything else.
// The small owners below release what they hold and ignore errors then: a run that failed has
// already said so, and the driver takes everything back at exit.
#pragma once

#include <cstdint>
#include <string>

#include "gpuload/driver_api.h"

namespace divvy::gpuload {

class Session {
 public:
  Session(const DriverApi& api, int ordinal);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Makes the context current in the calling thread.
  void bind() const;
  [[nodiscard]] int attribute(CUdevice_attribute which) const;
  [[nodiscard]] uint64_t free_bytes() const;

  const DriverApi& cu;
  int ordinal;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUfunction spin = nullptr;
  CUfunction stream_copy = nullptr;
  CUfunction fill32 = nullptr;
  CUfunction empty = nullptr;
  unsigned multiprocessors = 0;
  unsigned spin_blocks = 0;  // blocks of kSpinThreads that fill the whole GPU

 private:
  CUmodule module_ = nullptr;
};

class Stream {
 public:
  explicit Stream(const Session& session, unsigned flags = CU_STREAM_NON_BLOCKING);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] CUstream get() const { return stream_; }
  void synchronize() const;

 private:
  const Session& session_;
  CUstream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const Session& session, unsigned flags = CU_EVENT_DEFAULT);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] CUevent get() const { return event_; }
  void record(CUstream stream) const;
  void synchronize() const;
  // Microseconds on the GPU from `start` to this event.
  [[nodiscard]] double us_since(const Event& start) const;

 private:
  const Session& session_;
  CUevent event_ = nullptr;
};

class DeviceBuffer {
 public:
  DeviceBuffer(const Session& session, uint64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  [[nodiscard]] CUdeviceptr get() const { return pointer_; }

 private:
  const Session& session_;
  CUdeviceptr pointer_ = 0;
};

// "GPU-8f2d..." as nvidia-smi prints it.
std::string uuid_text(const CUuuid& uuid);

// Nanoseconds on the monotonic clock.
uint64_t monotonic_ns();

}  // namespace divvy::gpuload
