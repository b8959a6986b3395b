#include "simgpu/fault.h"

#include <array>
#include <cstddef>

#include "abi/nvml.h"
#include "simgpu/timeline.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kXidDoubleBitEcc = 48;
constexpr uint64_t kXidOffTheBus = 79;
constexpr uint32_t kAmpere = NVML_DEVICE_ARCH_AMPERE;  // the first that remaps rows

constexpr std::array<const char*, static_cast<size_t>(QueryClass::kCount)> kQueryNames = {
    "memory", "temperature", "power",     "utilization", "pci", "name",
    "ecc",    "nvlink",      "processes", "clocks",      "numa"};

void push_event(SharedState& state, int index, uint64_t type, uint64_t xid) {
  Gpu& gpu = state.gpu(index);
  {
    Locked lock(gpu.lock, repair_timeline, &gpu);
    const uint32_t sequence = gpu.xid_sequence.load() + 1;
    gpu.xid[sequence % kXidRing] =
        XidEvent{.sequence = sequence, .type = type, .xid = xid, .at_ns = now_ns(state.shared())};
    gpu.xid_sequence.store(sequence);
  }
  futex_wake_all(gpu.xid_sequence);
  state.shared().events.fetch_add(1);
  futex_wake_all(state.shared().events);
}

// A process that sleeps until its work is done has to look again: its GPU may be gone.
void wake_processes(SharedState& state) {
  Shared& shared = state.shared();
  Locked lock(shared.table_lock);
  for (uint32_t i = 0; i < shared.slot_high; ++i) {
    ProcessSlot& slot = shared.slot[i];
    if (slot.state.load() != static_cast<uint32_t>(SlotState::kClaimed)) continue;
    slot.wake.fetch_add(1);
    futex_wake_all(slot.wake);
  }
}

}  // namespace

void inject_xid(SharedState& state, int gpu, uint64_t xid) {
  push_event(state, gpu, nvmlEventTypeXidCriticalError, xid);
}

void lose_gpu(SharedState& state, int gpu) {
  state.gpu(gpu).faults.lost.store(1);
  inject_xid(state, gpu, kXidOffTheBus);
  wake_processes(state);
}

void restore_gpu(SharedState& state, int gpu) {
  state.gpu(gpu).faults.lost.store(0);
  wake_processes(state);
}

void hang_gpu(SharedState& state, int gpu) { state.gpu(gpu).faults.hung.store(1); }

void unhang_gpu(SharedState& state, int gpu) {
  state.gpu(gpu).faults.hung.store(0);
  futex_wake_all(state.gpu(gpu).faults.hung);
  wake_processes(state);
}

void wait_while_hung(Gpu& gpu) {
  while (const uint32_t hung = gpu.faults.hung.load()) futex_wait(gpu.faults.hung, hung, nullptr);
}

void inject_corrected_ecc(SharedState& state, int gpu, uint64_t count) {
  state.gpu(gpu).faults.ecc_corrected.fetch_add(count);
  push_event(state, gpu, nvmlEventTypeSingleBitEccError, 0);
}

void inject_uncorrected_ecc(SharedState& state, int gpu) {
  Faults& faults = state.gpu(gpu).faults;
  faults.ecc_uncorrected.fetch_add(1);
  if (state.gpu(gpu).spec.architecture >= kAmpere) faults.remap_pending.store(1);
  faults.ecc_epoch.fetch_add(1);
  faults.ecc_pending.store(1);
  push_event(state, gpu, nvmlEventTypeDoubleBitEccError, 0);
  inject_xid(state, gpu, kXidDoubleBitEcc);
  wake_processes(state);
}

void set_row_remap(SharedState& state, int gpu, const RowRemap& remap) {
  Faults& faults = state.gpu(gpu).faults;
  faults.remapped_rows.store(remap.remapped);
  faults.remap_pending.store(remap.pending ? 1 : 0);
  faults.remap_failed.store(remap.failed ? 1 : 0);
}

void set_temperature(SharedState& state, int gpu, int celsius) {
  state.gpu(gpu).faults.temperature_c.store(celsius);
}

void fail_queries(SharedState& state, int gpu, QueryClass queries, uint32_t nvml_return) {
  Faults& faults = state.gpu(gpu).faults;
  faults.failing_with.store(nvml_return);
  faults.failing_queries.fetch_or(1U << static_cast<uint32_t>(queries));
}

std::optional<QueryClass> query_class_named(const std::string& name) {
  for (size_t i = 0; i < kQueryNames.size(); ++i) {
    if (name == kQueryNames[i]) return static_cast<QueryClass>(i);
  }
  return std::nullopt;
}

std::vector<std::string> query_class_names() { return {kQueryNames.begin(), kQueryNames.end()}; }

void clear_faults(SharedState& state, int gpu) {
  Faults& faults = state.gpu(gpu).faults;
  faults.lost.store(0);
  faults.ecc_pending.store(0);
  faults.temperature_c.store(0);
  faults.ecc_corrected.store(0);
  faults.ecc_uncorrected.store(0);
  set_row_remap(state, gpu, {});
  faults.failing_queries.store(0);
  faults.failing_with.store(0);
  unhang_gpu(state, gpu);  // last, so that whoever was held finds a GPU that is well
}

std::vector<std::string> describe_faults(const Gpu& gpu) {
  const Faults& faults = gpu.faults;
  std::vector<std::string> words;
  if (faults.lost.load() != 0) words.emplace_back("lost");
  if (faults.hung.load() != 0) words.emplace_back("hung");
  if (faults.temperature_c.load() != 0) {
    words.push_back("held at " + std::to_string(faults.temperature_c.load()) + " C");
  }
  if (faults.ecc_uncorrected.load() != 0) {
    words.push_back("uncorrected memory errors: " + std::to_string(faults.ecc_uncorrected.load()));
  }
  if (faults.ecc_corrected.load() != 0) {
    words.push_back("corrected memory errors: " + std::to_string(faults.ecc_corrected.load()));
  }
  if (faults.remapped_rows.load() != 0) {
    words.push_back("remapped rows: " + std::to_string(faults.remapped_rows.load()));
  }
  if (faults.remap_pending.load() != 0) words.emplace_back("row remap pending");
  if (faults.remap_failed.load() != 0) words.emplace_back("row remap failed");
  for (size_t i = 0; i < kQueryNames.size(); ++i) {
    if ((faults.failing_queries.load() >> i & 1U) != 0) {
      words.push_back(std::string(kQueryNames[i]) + " queries fail with " +
                      std::to_string(faults.failing_with.load()));
    }
  }
  return words;
}

}  // namespace divvy::simgpu
