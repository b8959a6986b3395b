// A context that can be gated: the pages as its GPU sees them, and the samples of its launches. For
// gate.cc and lane_table.cc; any thread.
#pragma once

#include <stdint.h>

#include <atomic>

#include "abi/cuda.h"
#include "shim/sample.h"
#include "wire/pages.h"

namespace divvy::shim {

struct GatedLane;

struct GateContext {
  std::atomic<CUcontext> context = nullptr;  // null: unused
  int slice = 0;
  bool usable = false;              // pages are registered and the driver takes memory operations
  std::atomic<uint64_t> gate = 0;   // device address of the slice's gate
  std::atomic<uint64_t> lanes = 0;  // device address of `page`; 0 while that is replaced
  std::atomic<wire::LanesPage*> page = nullptr;
  void* lanes_mapping = nullptr;
  uint32_t pages = 0;  // which pages those addresses are of: a count of changes
  // The program is about to destroy it, or may be: nobody but the program's own calls may use it.
  std::atomic<bool> leaving = false;
  // The legacy stream and blocking streams wait for each other.
  std::atomic<GatedLane*> open_legacy = nullptr;  // its lane while it has an open batch
  std::atomic<int> open_blocking = 0;             // open batches of blocking streams
  SamplePool samples;
};

// The record of a context, or null. `make`: register it if it is not known yet.
GateContext* find_gate_context(CUcontext context, bool make);

// The lanes page that the context writes to and its address there; 0 when it has none just now.
uint64_t page_of(const GateContext& context, wire::LanesPage** page);

// Before a call that may destroy the context, and when it did not. From the first on, whoever walks
// all contexts or lanes leaves this one alone.
void gate_context_leaves(GateContext& context);
void gate_context_stays(GateContext& context);
// It is gone.
void drop_gate_context(GateContext& context);

// There is another control page, or another lanes page: every context gets their addresses.
void renew_page_addresses(bool lanes_too);
void gate_contexts_forget_after_fork();

// Makes a context current for as long as this lives, unless it is.
class Current {
 public:
  explicit Current(CUcontext context);
  ~Current();
  explicit operator bool() const { return good_; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_ = false;
  bool good_ = false;
};

}  // namespace divvy::shim
