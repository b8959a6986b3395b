// What every entry point of the simulated NVML begins with: is the library up, is the device one of
// ours, are the required pointers there, and does the GPU answer at all.
//
// Internal to libnvidia-ml.so.1. Any thread may call any entry point at any time.
#pragma once

#include <initializer_list>
#include <string_view>

#include "abi/nvml.h"
#include "simgpu/state.h"

// Entry points are the only symbols that leave the library.
#define SIMGPU_NVML extern "C" __attribute__((visibility("default")))

// The handle that programs hold: they see only its address.
struct nvmlDevice_st {
  int index;
};

namespace divvy::simgpu {

// The GPU that a call is about.
struct Device {
  SharedState& state;
  Gpu& gpu;
  int index;

  const Shared& shared() const { return state.shared(); }
  const GpuSpec& spec() const { return gpu.spec; }
};

// For calls that can be made to fail only together with everything else.
constexpr QueryClass kNoClass = QueryClass::kCount;

// Null until the library is initialised. A state stays mapped for as long as the process lives, so
// that a call in one thread survives the shutdown by another.
SharedState* library_state();

// The state for the few calls that need no initialisation; null when there is none to be had.
SharedState* state_without_init();

nvmlDevice_t handle_of(int index);
// -1 for anything that is no handle of ours.
int index_of(nvmlDevice_t device);

// Blocks while the GPU hangs, then says whether it answers queries of this class.
nvmlReturn_t gpu_answers(Gpu& gpu, QueryClass queries);

// Writes a text into a caller's buffer, or says that it is too small.
nvmlReturn_t give_text(std::string_view text, char* buffer, unsigned int length);

// Only an administrator changes a GPU.
nvmlReturn_t may_change();

inline bool any_null(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (pointer == nullptr) return true;
  }
  return false;
}

// Runs `body(Device&)` when the call may go ahead, and returns its result; else the reason why not.
template <typename Body>
nvmlReturn_t on_device(nvmlDevice_t device, QueryClass queries,
                       std::initializer_list<const void*> required, Body&& body) {
  SharedState* state = library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  const int index = index_of(device);
  if (index < 0 || index >= state->gpu_count() || any_null(required)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  Gpu& gpu = state->gpu(index);
  if (const nvmlReturn_t reason = gpu_answers(gpu, queries); reason != NVML_SUCCESS) return reason;
  Device called{.state = *state, .gpu = gpu, .index = index};
  return body(called);
}

}  // namespace divvy::simgpu
