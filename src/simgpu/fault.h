// Trouble on demand: puts faults on a simulated GPU from outside, while programs run on it.
//
// `simgpu fault` and tests call these; the driver libraries only read the result (Faults in
// shared.h), except that a context which did something forbidden reports its XID by inject_xid().
// Every function takes effect at once for every process and wakes whoever waits. Thread-safe
// across processes. A GPU is named by its index, which the caller has checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simgpu/state.h"

namespace divvy::simgpu {

// Reports an XID, as the driver does in the kernel log and in NVML's events. The GPU goes on.
void inject_xid(SharedState& state, int gpu, uint64_t xid);

// The GPU falls off the bus: XID 79, and every call about it fails until it is restored.
void lose_gpu(SharedState& state, int gpu);
void restore_gpu(SharedState& state, int gpu);

// Every call about the GPU blocks until it is let go.
void hang_gpu(SharedState& state, int gpu);
void unhang_gpu(SharedState& state, int gpu);
// Blocks while the GPU hangs.
void wait_while_hung(Gpu& gpu);

// Memory errors. Corrected ones are only counted. An uncorrected one also gives XID 48, ends the
// contexts on the GPU and, where the model remaps rows, leaves one to be remapped at the next
// reset.
void inject_corrected_ecc(SharedState& state, int gpu, uint64_t count);
void inject_uncorrected_ecc(SharedState& state, int gpu);

// Rows of memory that were replaced by spare ones, that wait for a reset to be replaced, or that
// could not be.
struct RowRemap {
  uint32_t remapped = 0;
  bool pending = false;
  bool failed = false;
};
void set_row_remap(SharedState& state, int gpu, const RowRemap& remap);

// Fixes the temperature, whatever the load. 0 lets it follow the load again.
void set_temperature(SharedState& state, int gpu, int celsius);

// Makes one class of NVML queries fail. All classes that fail do so with the code given last.
void fail_queries(SharedState& state, int gpu, QueryClass queries, uint32_t nvml_return);
std::optional<QueryClass> query_class_named(const std::string& name);
std::vector<std::string> query_class_names();

// Takes all faults back. Counters of memory errors start again from zero, as after a repair.
void clear_faults(SharedState& state, int gpu);

// What is wrong with a GPU, in a few words each; empty when it is well.
std::vector<std::string> describe_faults(const Gpu& gpu);

}  // namespace divvy::simgpu
