// The simulated NVML: waiting for XIDs and memory errors.
#include <string.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "simgpu/nvml_call.h"
#include "simgpu/timeline.h"

namespace divvy::simgpu {
namespace {

// What one event set looks for on one GPU.
struct Watch {
  int gpu;
  unsigned long long types;
  uint64_t next_sequence;  // events before it were delivered, or happened too early
};

// Power states and clocks never change by themselves here, but a monitor may ask for them.
constexpr unsigned long long kSupportedEvents =
    nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError | nvmlEventTypePState |
    nvmlEventTypeXidCriticalError | nvmlEventTypeClock;

}  // namespace
}  // namespace divvy::simgpu

struct nvmlEventSet_st {
  std::mutex mutex;
  divvy::simgpu::SharedState* state = nullptr;
  std::vector<divvy::simgpu::Watch> watches;
};

namespace divvy::simgpu {
namespace {

// The part of nvmlEventData_t that its first version had.
constexpr size_t kEventDataV1 = offsetof(nvmlEventData_t, gpuInstanceId);

std::optional<XidEvent> next_event(Gpu& gpu, Watch& watch) {
  Locked lock(gpu.lock, repair_timeline, &gpu);
  const uint64_t last = gpu.xid_sequence.load();
  // Who does not look in time loses the oldest ones.
  if (last >= kXidRing) watch.next_sequence = std::max(watch.next_sequence, last - kXidRing + 1);
  while (watch.next_sequence <= last) {
    const XidEvent event = gpu.xid[watch.next_sequence++ % kXidRing];
    if ((event.type & watch.types) != 0) return event;
  }
  return std::nullopt;
}

enum class Found { kEvent, kLostGpu, kNothing };

Found look(nvmlEventSet_st& set, nvmlEventData_t* data) {
  const std::lock_guard<std::mutex> lock(set.mutex);
  bool lost = false;
  for (Watch& watch : set.watches) {
    Gpu& gpu = set.state->gpu(watch.gpu);
    if (const auto event = next_event(gpu, watch)) {
      *data = {.device = handle_of(watch.gpu),
               .eventType = event->type,
               .eventData = event->xid,
               .gpuInstanceId = 0xFFFFFFFF,
               .computeInstanceId = 0xFFFFFFFF};
      return Found::kEvent;
    }
    lost = lost || gpu.faults.lost.load() != 0;
  }
  return lost ? Found::kLostGpu : Found::kNothing;
}

uint64_t real_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(ts.tv_nsec);
}

nvmlReturn_t wait(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout_ms, size_t size) {
  SharedState* state = library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  // The timeout is the caller's patience and runs in real time, whatever clock the GPUs have.
  const uint64_t deadline = real_ns() + uint64_t{timeout_ms} * 1'000'000U;
  for (;;) {
    std::atomic<uint32_t>& word = state->shared().events;
    const uint32_t seen = word.load();
    nvmlEventData_t found{};
    switch (look(*set, &found)) {
      case Found::kEvent:
        memcpy(static_cast<void*>(data), &found, size);
        return NVML_SUCCESS;
      case Found::kLostGpu:
        return NVML_ERROR_GPU_IS_LOST;
      case Found::kNothing:
        break;
    }
    if (real_ns() >= deadline) return NVML_ERROR_TIMEOUT;
    futex_wait(word, seen, &deadline);
  }
}

}  // namespace
}  // namespace divvy::simgpu

namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  sim::SharedState* state = sim::library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  auto created = std::make_unique<nvmlEventSet_st>();
  created->state = state;
  *set = created.release();
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  if (sim::library_state() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  delete set;
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                          unsigned long long* types) {
  return sim::on_device(device, sim::kNoClass, {types}, [&](sim::Device&) {
    *types = sim::kSupportedEvents;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                                  nvmlEventSet_t set) {
  return sim::on_device(device, sim::kNoClass, {set}, [&](sim::Device& called) {
    if (types == nvmlEventTypeNone) return NVML_ERROR_INVALID_ARGUMENT;
    if ((types & ~sim::kSupportedEvents) != 0) return NVML_ERROR_NOT_SUPPORTED;
    const std::lock_guard<std::mutex> lock(set->mutex);
    for (sim::Watch& watch : set->watches) {
      if (watch.gpu != called.index) continue;
      watch.types |= types;
      return NVML_SUCCESS;
    }
    set->watches.push_back(
        {.gpu = called.index, .types = types, .next_sequence = called.gpu.xid_sequence.load() + 1});
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data,
                                          unsigned int timeout_ms) {
  return sim::wait(set, data, timeout_ms, sim::kEventDataV1);
}

SIMGPU_NVML nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                             unsigned int timeout_ms) {
  return sim::wait(set, data, timeout_ms, sizeof(nvmlEventData_t));
}
