#include "shim/gate_context.h"

#include <stddef.h>
#include <sys/mman.h>

#include "shim/link.h"
#include "shim/real.h"
#include "shim/spin_lock.h"

namespace divvy::shim {
namespace {

constexpr int kMaxContexts = 64;

constinit GateContext g_contexts[kMaxContexts] = {};
SpinLock g_lock;
uint32_t g_pages = 0;  // under the lock

// The same page may not be registered twice under one address, and a registration ends with its
// context; so every context gets a mapping of its own. It is made from the mapping that there is
// (mremap from length 0): the program may have closed the descriptor.
uint64_t map_for_gpu(const void* known, size_t bytes, unsigned flags, void** mapping) {
  void* page = mremap(const_cast<void*>(known), 0, bytes, MREMAP_MAYMOVE);
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
  const uint64_t page =
      map_for_gpu(control(), wire::kControlBytes, CU_MEMHOSTREGISTER_READ_ONLY, nullptr);
  if (page == 0) return 0;
  return page + offsetof(wire::ControlPage, gpu) +
         static_cast<uint64_t>(slice) * sizeof(wire::ControlGpu) + offsetof(wire::ControlGpu, gate);
}

void map_lanes_for(GateContext& entry) {
  wire::LanesPage* page = lanes();
  entry.page.store(page);
  entry.lanes.store(map_for_gpu(page, wire::kLanesBytes, 0, &entry.lanes_mapping));
}

GateContext* known(CUcontext context) {
  for (GateContext& entry : g_contexts) {
    if (entry.context.load(std::memory_order_acquire) == context) return &entry;
  }
  return nullptr;
}

void tell_of(int slice) {
  lanes()->contexts.fetch_or(uint64_t{1} << slice);
  // Others may have to be gated because of this one.
  if (control()->asleep.load() != 0) ring_doorbell();
}

// Under the lock.
void renew(GateContext& entry, bool lanes_too) {
  const CUcontext context = entry.context.load();
  if (context == nullptr || !entry.usable) return;
  const Current current(context);
  if (!current) return;
  // What is in the streams goes on with the old pages, which stay.
  if (const uint64_t gate = map_gate(entry.slice); gate != 0) entry.gate.store(gate);
  if (lanes_too) {
    entry.lanes.store(0);
    map_lanes_for(entry);
    entry.usable = entry.lanes.load() != 0;
    if (!entry.usable) lanes()->flags.fetch_or(wire::kGatesUnavailable);
    tell_of(entry.slice);
  }
}

}  // namespace

Current::Current(CUcontext context) {
  CUcontext now = nullptr;
  good_ = g_cuda.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context;
  if (!good_) good_ = pushed_ = g_cuda.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

Current::~Current() {
  CUcontext popped;
  if (pushed_) g_cuda.cuCtxPopCurrent_v2(&popped);
}

GateContext* find_gate_context(CUcontext context, bool make) {
  if (context == nullptr) return nullptr;
  GateContext* found = known(context);
  if (found != nullptr || !make) return found;
  const Current current(context);
  const int slice = current ? slice_of_current() : -1;
  if (slice < 0 || lanes() == nullptr) return nullptr;
  const SpinLocked locked(g_lock);
  found = known(context);
  if (found != nullptr) return found;
  for (GateContext& entry : g_contexts) {
    if (entry.context.load() != nullptr) continue;
    entry.slice = slice;
    entry.pages = g_pages;
    entry.leaving.store(false);
    entry.gate.store(map_gate(slice));
    map_lanes_for(entry);
    entry.usable = entry.gate.load() != 0 && entry.lanes.load() != 0 &&
                   g_cuda.cuStreamBatchMemOp_v2 != nullptr;
    if (!entry.usable) lanes()->flags.fetch_or(wire::kGatesUnavailable);
    entry.context.store(context, std::memory_order_release);
    tell_of(slice);
    return &entry;
  }
  return nullptr;
}

uint64_t page_of(const GateContext& context, wire::LanesPage** page) {
  const uint64_t address = context.lanes.load();
  *page = context.page.load();
  return context.lanes.load() == address ? address : 0;
}

void gate_context_leaves(GateContext& context) {
  // Whoever renews addresses is through with it when we have the lock.
  const SpinLocked locked(g_lock);
  context.leaving.store(true);
}

void gate_context_stays(GateContext& context) {
  const SpinLocked locked(g_lock);
  context.leaving.store(false);
  if (context.pages != g_pages) renew(context, true);
  context.pages = g_pages;
}

void drop_gate_context(GateContext& context) {
  const SpinLocked locked(g_lock);
  // The registration and the events went with the context.
  if (context.lanes_mapping != nullptr) munmap(context.lanes_mapping, wire::kLanesBytes);
  context.lanes_mapping = nullptr;
  context.samples.forget();
  context.open_legacy.store(nullptr);
  context.open_blocking.store(0);
  context.context.store(nullptr);
  for (const GateContext& other : g_contexts) {
    if (other.context.load() != nullptr && other.slice == context.slice) return;
  }
  lanes()->contexts.fetch_and(~(uint64_t{1} << context.slice));
}

void renew_page_addresses(bool lanes_too) {
  const SpinLocked locked(g_lock);
  ++g_pages;
  for (GateContext& entry : g_contexts) {
    if (entry.leaving.load()) continue;
    renew(entry, lanes_too);
    entry.pages = g_pages;
  }
}

void gate_contexts_forget_after_fork() {
  for (GateContext& entry : g_contexts) {
    entry.context.store(nullptr);
    entry.open_legacy.store(nullptr);
    entry.open_blocking.store(0);
    entry.lanes_mapping = nullptr;
    entry.samples.forget();
  }
  g_lock.unlock();
}

}  // namespace divvy::shim
