#include "shim/gate_context.h"

#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>

#include "shim/link.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

constexpr int kMaxContexts = 64;

constinit GateContext g_contexts[kMaxContexts] = {};
SpinLock g_lock;

class Locked {
 public:
  Locked() { g_lock.lock(); }
  ~Locked() { g_lock.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

// Makes a context current for as long as this lives.
class Current {
 public:
  explicit Current(CUcontext context)
      : pushed_(g_cuda.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {}
  ~Current() {
    CUcontext popped;
    if (pushed_) g_cuda.cuCtxPopCurrent_v2(&popped);
  }
  explicit operator bool() const { return pushed_; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_;
};

// The same page may not be registered twice under one address, and a registration ends with its
// context; so every context gets a mapping of its own.
uint64_t map_for_gpu(int fd, size_t bytes, int protection, unsigned flags, void** mapping) {
  void* page = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return 0;
  CUdeviceptr device = 0;
  if (g_cuda.cuMemHostRegister_v2(page, bytes, flags | CU_MEMHOSTREGISTER_DEVICEMAP) !=
          CUDA_SUCCESS ||
      g_cuda.cuMemHostGetDevicePointer_v2(&device, page, 0) != CUDA_SUCCESS) {
    munmap(page, bytes);
    return 0;
  }
  if (mapping != nullptr) *mapping = page;
  return device;
}

uint64_t map_gate(int slice) {
  const uint64_t page = map_for_gpu(control_fd(), wire::kControlBytes, PROT_READ,
                                    CU_MEMHOSTREGISTER_READ_ONLY, nullptr);
  if (page == 0) return 0;
  return page + offsetof(wire::ControlPage, gpu) +
         static_cast<uint64_t>(slice) * sizeof(wire::ControlGpu) + offsetof(wire::ControlGpu, gate);
}

GateContext* known(CUcontext context) {
  for (GateContext& entry : g_contexts) {
    if (entry.context.load(std::memory_order_acquire) == context) return &entry;
  }
  return nullptr;
}

void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void SpinLock::lock() {
  for (int spins = 0; !try_lock(); ++spins) {
    if (spins > 100) {
      sched_yield();
    } else {
      relax_cpu();
    }
  }
}

GateContext* find_gate_context(CUcontext context, bool make) {
  if (context == nullptr) return nullptr;
  GateContext* found = known(context);
  if (found != nullptr || !make) return found;
  const Current current(context);
  const int slice = current ? slice_of_current() : -1;
  if (slice < 0 || lanes() == nullptr) return nullptr;
  const Locked locked;
  found = known(context);
  if (found != nullptr) return found;
  for (GateContext& entry : g_contexts) {
    if (entry.context.load() != nullptr) continue;
    entry.slice = slice;
    entry.gate.store(map_gate(slice));
    entry.lanes =
        map_for_gpu(lanes_fd(), wire::kLanesBytes, PROT_READ | PROT_WRITE, 0, &entry.lanes_mapping);
    entry.usable =
        entry.gate.load() != 0 && entry.lanes != 0 && g_cuda.cuStreamBatchMemOp_v2 != nullptr;
    if (!entry.usable) lanes()->flags.fetch_or(wire::kGatesUnavailable);
    entry.context.store(context, std::memory_order_release);
    lanes()->contexts.fetch_or(uint64_t{1} << slice);
    // Others may have to be gated because of this one.
    if (control()->asleep.load() != 0) ring_doorbell();
    return &entry;
  }
  return nullptr;
}

Sample* take_sample(GateContext& context, CostEntry* entry) {
  for (Sample& sample : context.sample) {
    uint32_t free = Sample::kFree;
    if (!sample.state.compare_exchange_strong(free, Sample::kTaken)) continue;
    if (sample.begin == nullptr &&
        (g_cuda.cuEventCreate(&sample.begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
         g_cuda.cuEventCreate(&sample.end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)) {
      return nullptr;  // stays taken: this context makes no more events
    }
    sample.entry = entry;
    return &sample;
  }
  return nullptr;
}

void collect_samples(GateContext& context) {
  for (Sample& sample : context.sample) {
    uint32_t in_flight = Sample::kInFlight;
    if (sample.state.load(std::memory_order_relaxed) != Sample::kInFlight ||
        !sample.state.compare_exchange_strong(in_flight, Sample::kTaken)) {
      continue;
    }
    const CUresult ended = g_cuda.cuEventQuery(sample.end);
    if (ended == CUDA_ERROR_NOT_READY) {
      sample.state.store(Sample::kInFlight);
      return;  // later ones are not ready either, as a rule
    }
    float ms = 0;
    const auto elapsed = g_cuda.cuEventElapsedTime_v2 != nullptr ? g_cuda.cuEventElapsedTime_v2
                                                                 : g_cuda.cuEventElapsedTime;
    if (ended == CUDA_SUCCESS && elapsed(&ms, sample.begin, sample.end) == CUDA_SUCCESS) {
      learn(sample.entry, static_cast<uint64_t>(static_cast<double>(ms) * 1e6));
    }
    sample.state.store(Sample::kFree);
  }
}

void drop_gate_context(CUcontext context) {
  const Locked locked;
  GateContext* entry = known(context);
  if (entry == nullptr) return;
  // The registration and the events went with the context.
  if (entry->lanes_mapping != nullptr) munmap(entry->lanes_mapping, wire::kLanesBytes);
  entry->lanes_mapping = nullptr;
  for (Sample& sample : entry->sample) {
    sample.begin = sample.end = nullptr;
    sample.state.store(Sample::kFree);
  }
  const int slice = entry->slice;
  entry->context.store(nullptr);
  for (const GateContext& other : g_contexts) {
    if (other.context.load() != nullptr && other.slice == slice) return;
  }
  lanes()->contexts.fetch_and(~(uint64_t{1} << slice));
}

void renew_gate_addresses() {
  const Locked locked;
  for (GateContext& entry : g_contexts) {
    const CUcontext context = entry.context.load();
    if (context == nullptr || !entry.usable) continue;
    const Current current(context);
    const uint64_t gate = current ? map_gate(entry.slice) : 0;
    if (gate != 0) entry.gate.store(gate);
  }
}

void gate_contexts_forget_after_fork() {
  for (GateContext& entry : g_contexts) entry.context.store(nullptr);
  g_lock.unlock();
}

}  // namespace divvy::shim
