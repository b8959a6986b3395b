// Streams, events and the operations queued in them: the data that the engine works on.
//
// Everything here is guarded by the driver's one mutex (driver.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "abi/cuda_types.h"
#include "simgpu/shared.h"

namespace divvy::simgpu {

struct Capture;  // capture.h
struct Context;  // context.h
struct Event;
struct Stream;

enum class OpKind : uint8_t {
  kKernel,      // takes time on the GPU's compute timeline
  kTransfer,    // takes time on a copy engine, beside kernels
  kRecord,      // an event
  kWaitEvent,   // until an event's version is complete
  kWaitStream,  // until another stream has completed so many operations
  kWaitValue,   // until memory holds a value
  kWriteValue,
  kHost,      // a function of the program; only the engine's thread runs it
  kAction,    // instant, inside the driver
  kSequence,  // a launched graph: a list of the others, one after the other
};

struct Op;
using Action = std::function<void()>;
using OpList = std::vector<Op>;

struct Op {
  OpKind kind = OpKind::kAction;
  bool wide = false;      // kWaitValue, kWriteValue: 64 bits
  bool waited = false;    // kWaitValue: seen unsatisfied at least once
  bool unmet = false;     // kWaitValue: unsatisfied when it was queued
  uint16_t width = 1000;  // kKernel: thousandths of the GPU it fills
  uint32_t flags = 0;     // kWaitValue: CU_STREAM_WAIT_VALUE_*
  uint64_t enqueued_at_ns = 0;
  uint64_t cost_ns = 0;
  uint64_t prefix_ns = 0;  // cost of everything queued in the stream up to and with this
  union {
    Event* event = nullptr;  // kRecord, kWaitEvent
    Stream* stream;          // kWaitStream
    uint64_t address;        // kWaitValue, kWriteValue
  };
  uint64_t met_at_ns = 0;  // kWaitValue: when a stream wrote what it stood waiting for; 0: unknown
  uint64_t number = 0;     // the version, the count or the value
  std::shared_ptr<Action> action;      // done when the operation completes
  std::shared_ptr<const OpList> list;  // kSequence

  // Another thread, process or the program may wait for the effect, so the engine must be in time.
  bool visible() const {
    return kind != OpKind::kKernel && kind != OpKind::kWaitStream && kind != OpKind::kWaitEvent;
  }
};

// Events that were destroyed stay until no queued operation points at them.
struct Event {
  uint32_t flags = 0;
  Context* context = nullptr;
  bool destroyed = false;
  uint32_t references = 0;  // queued operations
  uint64_t recorded = 0;    // versions handed to cuEventRecord
  uint64_t completed = 0;   // versions the stream has passed
  uint64_t completed_at_ns = 0;
  int ipc = -1;                            // index of its IpcEvent, when shared between processes
  bool imported = false;                   // opened from another process's handle
  std::shared_ptr<Capture> capture;        // last recorded inside this capture ...
  std::vector<CUgraphNode> capture_nodes;  // ... after these nodes
};

// A queued operation lets go of its event; the last one to do so frees a destroyed event.
inline void unreference(Event& event) {
  if (--event.references == 0 && event.destroyed) delete &event;
}

// A queue of bounded length: a launch into a full one waits, as on hardware.
class OpQueue {
 public:
  static constexpr size_t kCapacity = 1024;
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == kCapacity; }
  size_t size() const { return tail_ - head_; }
  Op& front() { return ops_[head_ % kCapacity]; }
  const Op& back() const { return ops_[(tail_ - 1) % kCapacity]; }
  Op& push() {
    if (ops_.empty()) ops_.resize(kCapacity);
    return ops_[tail_++ % kCapacity];
  }
  void pop() {
    Op& op = front();
    op.action.reset();
    op.list.reset();
    ++head_;
  }

 private:
  std::vector<Op> ops_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

struct Stream {
  uint32_t flags = 0;  // CU_STREAM_NON_BLOCKING
  Context* context = nullptr;
  int priority = 0;
  uint64_t id = 0;
  bool destroyed = false;  // gone for the program; freed when its queue is empty
  bool is_legacy = false;
  uint32_t references = 0;  // kWaitStream operations that point here
  uint64_t submitted = 0;   // operations ever queued
  uint64_t completed = 0;
  uint64_t prefix_ns = 0;                            // cost of all of them
  uint64_t position_ns = 0;                          // when the last completed operation ended
  std::map<unsigned, CUstreamAttrValue> attributes;  // set by the program, and only kept
  uint64_t legacy_seen = 0;  // how much of the legacy stream this one already waits for

  OpQueue queue;
  std::deque<uint64_t> visible_prefix_ns;  // where in the queue visible operations sit
  size_t sequence_cursor = 0;              // position inside a kSequence at the front
  uint64_t sequence_left_ns = 0;           // cost of what is left of it
  Op expanded;                             // the operation of the sequence that is due
  bool has_expanded = false;
  bool running = false;       // the front is a kernel on the GPU
  bool host_running = false;  // the front is a host function being called
  uint64_t remaining_ns = 0;
  uint64_t poll_ns = 0;  // growing interval while a value is waited for

  std::shared_ptr<Capture> capture;       // set while the stream is being captured
  std::vector<CUgraphNode> capture_tail;  // nodes that the next captured operation follows

  bool idle() const { return queue.empty(); }
  // Nothing points at a stream that the program destroyed, so it can be freed.
  bool forgotten() const { return destroyed && idle() && references == 0 && !host_running; }
};

}  // namespace divvy::simgpu
