// This process's side of the simulated driver: devices, contexts, handles, and the one mutex that
// guards them all. Every exported cu* function opens a Call, which takes the mutex and checks what
// every call has to check.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi/cuda.h"
#include "simgpu/context.h"
#include "simgpu/engine.h"
#include "simgpu/memory_map.h"
#include "simgpu/state.h"

// Put before the definition of every exported function.
#define SIMGPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace divvy::simgpu {

struct Memory;  // memory.h: arenas, pools and handles of this process
struct Graphs;  // graph.h: graphs, executables and captures of this process

struct PrimaryContext {
  Context* context = nullptr;
  uint32_t references = 0;
  uint32_t flags = 0;
};

class Driver {
 public:
  static Driver& get();

  CUresult init();
  bool initialised() const { return engine_ != nullptr; }

  SharedState& state() { return *state_; }
  Shared& shared() { return state_->shared(); }
  Engine& engine() { return *engine_; }
  int slot() const { return slot_; }
  bool over_mps() const { return mps_threads_ != 0; }
  std::mutex& mutex() { return mutex_; }
  MemoryMap& map() { return map_; }
  Memory& memory() { return *memory_; }
  Graphs& graphs() { return *graphs_; }

  // Devices that CUDA_VISIBLE_DEVICES leaves, in its order. A CUdevice is an index into them.
  int device_count() const { return static_cast<int>(visible_.size()); }
  bool valid_device(CUdevice device) const { return device >= 0 && device < device_count(); }
  int gpu_of(CUdevice device) const { return visible_[static_cast<size_t>(device)]; }
  const GpuSpec& spec(CUdevice device) { return state_->gpu(gpu_of(device)).spec; }
  PrimaryContext& primary(CUdevice device) { return primary_[static_cast<size_t>(device)]; }

  // Charges a device's memory to this process; false when it is full. Under the slot's own count,
  // so a killed process owes nothing.
  bool charge(CUdevice device, uint64_t bytes);
  void refund(CUdevice device, uint64_t bytes);

  CUresult create_context(CUdevice device, unsigned flags, bool primary, Context** out);
  void destroy_context(std::unique_lock<std::mutex>& lock, Context* context);
  bool live(const Context* context) const { return contexts_.contains(context); }

  Stream* create_stream(Context& context, unsigned flags, int priority);
  void destroy_stream(Stream& stream);
  // The stream behind a handle: NULL and CU_STREAM_LEGACY are the context's legacy stream,
  // CU_STREAM_PER_THREAD the calling thread's own. INVALID_HANDLE for what is no stream.
  CUresult resolve_stream(CUstream handle, Context* context, Stream** out);

  Event* create_event(Context& context, unsigned flags);
  void destroy_event(Event& event);
  // Null for what is no event.
  Event* resolve_event(CUevent handle);

  // Queues work in a stream that is not being captured, behind what it implicitly waits for: a
  // blocking stream follows the legacy stream and the legacy stream follows all blocking ones.
  void enqueue(std::unique_lock<std::mutex>& lock, Stream& stream, Op&& op);
  // Waits until everything queued so far in the stream is done.
  void synchronize(std::unique_lock<std::mutex>& lock, Stream& stream);
  void synchronize(std::unique_lock<std::mutex>& lock, Context& context);

 private:
  Driver();
  void find_visible_devices();

  std::mutex mutex_;
  SharedState* state_ = nullptr;
  std::unique_ptr<Engine> engine_;
  int slot_ = -1;
  unsigned mps_threads_ = 0;  // Context::mps_threads of every context here
  std::vector<int> visible_;
  std::vector<PrimaryContext> primary_;
  std::unordered_set<const Context*> contexts_;
  std::unordered_set<const Stream*> streams_;
  std::unordered_set<const Event*> events_;
  MemoryMap map_;
  Memory* memory_ = nullptr;
  Graphs* graphs_ = nullptr;
  uint64_t next_id_ = 1;
};

// The calling thread's stack of current contexts.
std::vector<Context*>& context_stack();

// The beginning of every exported function:
//   Call call(Call::kContext);
//   if (call.error != CUDA_SUCCESS) return call.error;
class Call {
 public:
  enum Need {
    kInit,     // the driver is initialised
    kContext,  // and a living context is current, which has no sticky error
  };
  explicit Call(Need need);

  CUresult error = CUDA_SUCCESS;
  Driver& driver;
  std::unique_lock<std::mutex> lock;
  Context* context = nullptr;
};

// Error of a GPU that was made to fail from outside; blocks while it is hung.
CUresult fault_of(Driver& driver, std::unique_lock<std::mutex>& lock, Context& context);

// Calls that may implicitly synchronise or touch the legacy stream are refused to a thread that
// captures in a mode that forbids them (CU_STREAM_CAPTURE_MODE_GLOBAL / _THREAD_LOCAL). Returns
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and invalidates the captures concerned. In capture.cc.
CUresult refuse_while_capturing(Driver& driver);
// For work aimed at the legacy stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT while a blocking stream
// of the context is captured, which it also invalidates. In capture.cc.
CUresult refuse_legacy_while_capturing(Driver& driver, Context& context);

inline Context* context_of(CUcontext handle) { return reinterpret_cast<Context*>(handle); }
inline CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }
inline CUstream handle_of(Stream* stream) { return reinterpret_cast<CUstream>(stream); }
inline CUevent handle_of(Event* event) { return reinterpret_cast<CUevent>(event); }
// What the *_ptsz and *_ptds functions do with a NULL stream.
inline CUstream per_thread(CUstream stream) {
  return stream == nullptr ? reinterpret_cast<CUstream>(uintptr_t{0x2}) : stream;
}

}  // namespace divvy::simgpu
