#include "shim/gate.h"

#include <stddef.h>

#include "shim/cost.h"
#include "shim/event_order.h"
#include "shim/gate_context.h"
#include "shim/lane_table.h"
#include "shim/link.h"
#include "shim/real.h"
#include "shim/watcher.h"

namespace divvy::shim {

std::atomic<int> g_open_batches{0};
std::atomic<int> g_captures{0};

namespace {

// Looks without a launch after which the watcher closes a batch, when nobody would use the GPU
// sooner: about 5 ms.
constexpr uint32_t kSilentLooks = 16;

// No stream begins to be captured while this is held.
SpinLock g_capture_lock;

// A few memory operations that go into a stream together.
class Operations {
 public:
  void wait_for_gate(const GateContext& context) {
    wait(context.gate.load(std::memory_order_relaxed), 1, CU_STREAM_WAIT_VALUE_AND);
  }
  void wait_for_ticket(uint64_t released, uint32_t ticket) {
    wait(released, ticket, CU_STREAM_WAIT_VALUE_GEQ);
  }
  void write(const GatedLane& lane, const std::atomic<uint32_t>& field, uint32_t value) {
    auto& op = op_[count_++].writeValue;
    op = {};
    op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    const auto* shared = reinterpret_cast<const char*>(lane.lane.load(std::memory_order_relaxed));
    op.address =
        lane.address + static_cast<uint64_t>(reinterpret_cast<const char*>(&field) - shared);
    op.value = value;
    op.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  }
  bool put_into(const GatedLane& lane) {
    return g_cuda.cuStreamBatchMemOp_v2(lane.stream.load(), count_, op_, 0) == CUDA_SUCCESS;
  }

 private:
  void wait(uint64_t address, uint32_t value, unsigned flags) {
    auto& op = op_[count_++].waitValue;
    op = {};
    op.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.address = address;
    op.value = value;
    op.flags = flags;
  }

  CUstreamBatchMemOpParams op_[3];
  unsigned count_ = 0;
};

// Its context is current, or the stream is the program's own at this moment.
bool capturing(CUstream stream) {
  if (g_captures.load() == 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error means that the stream may not be touched now, which is as good as capturing.
  return g_cuda.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capturing(CUstream stream, bool per_thread) {
  return capturing(stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream);
}

const wire::ControlGpu& slice_of(const GatedLane& lane) {
  return control()->gpu[lane.lane.load(std::memory_order_relaxed)->gpu.load()];
}

// The end of a batch is told at once.
bool eager(const wire::ControlGpu& slice) {
  return (slice.flags.load(std::memory_order_relaxed) &
          (wire::kSliceContended | wire::kSliceLatencyClass)) != 0;
}

bool eager(const GatedLane& lane) { return eager(slice_of(lane)); }

void set_open(GatedLane& lane, bool open) {
  if (lane.open.exchange(open) == open) return;
  const int step = open ? 1 : -1;
  GateContext& context = *lane.context.load();
  if (lane.blocking.load()) context.open_blocking.fetch_add(step);
  if (lane.is_legacy()) context.open_legacy.store(open ? &lane : nullptr);
  g_open_batches.fetch_add(step);
}

bool usable(const GatedLane& lane) {
  return lane.lane.load()->state.load(std::memory_order_relaxed) ==
         static_cast<uint32_t>(wire::LaneState::kLive);
}

// The context is broken, or the driver takes no memory operations on this stream: the arbiter must
// not wait for what will never be written.
void give_up(GatedLane& lane) {
  set_open(lane, false);
  wire::Lane& shared = *lane.lane.load();
  shared.state.store(static_cast<uint32_t>(wire::LaneState::kDead));
  // Of the batch that was about to begin nothing is in the stream.
  shared.inserted.store(lane.batch.load());
}

// With `busy` held and an open batch, in the lane's context.
void close_batch(GatedLane& lane) {
  wire::Lane& shared = *lane.lane.load();
  Operations end;
  const uint32_t batch = lane.batch.load(std::memory_order_relaxed);
  end.write(lane, shared.done, batch);
  if (!end.put_into(lane)) return give_up(lane);
  shared.closed.store(batch, std::memory_order_release);
  lane.close_asked.store(false);
  set_open(lane, false);
}

// The same from a thread whose current context may be another.
void close_batch_in_its_context(GatedLane& lane) {
  const Current current(lane.context.load()->context.load());
  if (!current) return give_up(lane);
  close_batch(lane);
}

// Closes the batch of a stream that this thread is not using: it may be in use by another thread,
// be destroyed or captured. Who uses it will then close the batch, or the watcher will.
void close_from_outside(GatedLane& lane) {
  lane.close_asked.store(true);
  if (!lane.busy.try_lock()) return;
  const GateContext* context = lane.context.load();
  if (lane.open.load() && !context->leaving.load() && g_capture_lock.try_lock()) {
    // The legacy stream cannot be captured, and not be touched while another is.
    const bool untouchable = lane.is_legacy() && g_captures.load() != 0;
    const Current current(context->context.load());
    if (!untouchable && current && !capturing(lane.stream.load())) close_batch(lane);
    g_capture_lock.unlock();
  }
  if (!lane.open.load()) lane.close_asked.store(false);
  lane.busy.unlock();
}

// Nobody can name another thread's own stream.
bool reachable(const GatedLane& lane) {
  return !lane.is_per_thread() || lane.thread.load() == this_thread();
}

// What goes into the legacy stream waits for all blocking streams, and what goes into one of those,
// for the legacy stream.
void close_blocking_streams(const GateContext& context) {
  if (context.open_blocking.load(std::memory_order_relaxed) == 0) return;
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (!lane.open.load() || lane.context.load() != &context || !lane.blocking.load()) continue;
    if (reachable(lane)) close_from_outside(lane);
  }
}

void close_legacy_stream(const GateContext& context) {
  if (GatedLane* legacy = context.open_legacy.load(std::memory_order_relaxed)) {
    close_from_outside(*legacy);
  }
}

// With `busy` held. The end of the batch before goes into the stream with the same call.
void begin_batch(GatedLane& lane) {
  GateContext& context = *lane.context.load();
  if (lane.is_legacy()) close_blocking_streams(context);
  wire::Lane& shared = *lane.lane.load();
  const bool was_open = lane.open.load(std::memory_order_relaxed);
  const uint32_t last = lane.batch.load(std::memory_order_relaxed);
  const uint32_t next = last + 1;
  shared.begun_cost_ns.store(shared.cost_ns.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  // The daemon must see that a batch stands at the gate before the GPU can say it has passed.
  shared.inserted.store(next, std::memory_order_seq_cst);
  Operations turn;
  if (was_open) turn.write(lane, shared.done, last);
  turn.wait_for_gate(context);
  turn.write(lane, shared.passed, next);
  if (!turn.put_into(lane)) return give_up(lane);
  if (was_open) shared.closed.store(last, std::memory_order_release);
  set_open(lane, true);
  lane.close_asked.store(false);
  lane.batch.store(next, std::memory_order_release);
  lane.filled_ns = 0;
  if (control()->asleep.load(std::memory_order_seq_cst) != 0) ring_doorbell();
  wake_watcher();
  if (!anything_captured()) context.samples.collect();
}

// With `busy` held.
Sample* begin_sample(GatedLane& lane, CostEntry* entry) {
  if (!watcher_runs() || anything_captured()) return nullptr;
  GateContext& context = *lane.context.load();
  wire::LanesPage* page = nullptr;
  const uint64_t address = page_of(context, &page);
  Sample* sample = address == 0 ? nullptr : context.samples.take(entry, page);
  if (sample == nullptr) return nullptr;
  // It lets go what blocks.
  wake_watcher();
  Operations hold;
  hold.wait_for_ticket(address + offsetof(wire::LanesPage, released), sample->ticket);
  const CUstream stream = lane.stream.load();
  if (hold.put_into(lane) && g_cuda.cuEventRecord(sample->before, stream) == CUDA_SUCCESS &&
      g_cuda.cuEventRecord(sample->begin, stream) == CUDA_SUCCESS) {
    return sample;
  }
  SamplePool::drop(*sample);
  return nullptr;
}

bool is_legacy(CUstream stream, bool per_thread) {
  return stream == CU_STREAM_LEGACY || (stream == nullptr && !per_thread);
}

}  // namespace

Passage before_launch(CUstream stream, bool per_thread, uint64_t key, uint32_t known_ns) {
  Passage passage;
  if (capturing(stream, per_thread)) return passage;
  GatedLane* lane = hold_lane(stream, per_thread);
  if (lane == nullptr) return passage;
  const GateContext& context = *lane->context.load(std::memory_order_relaxed);
  const wire::ControlGpu& slice = slice_of(*lane);
  if (!usable(*lane) ||
      slice.mode.load(std::memory_order_relaxed) != static_cast<uint32_t>(wire::Mode::kGated)) {
    lane->busy.unlock();
    return passage;
  }
  if (lane->blocking.load(std::memory_order_relaxed)) close_legacy_stream(context);
  CostEntry* entry = key != 0 ? cost_of(key) : nullptr;
  const uint32_t cost = key != 0 ? predicted_ns(entry) : known_ns;
  const uint32_t batch_ns = slice.batch_ns.load(std::memory_order_relaxed);
  // How long it will run nobody knows: nothing shall stand before or behind it.
  const bool unmeasured = key != 0 && !is_measured(entry);
  if (!lane->open.load(std::memory_order_relaxed) || lane->filled_ns + cost / 2 >= batch_ns ||
      unmeasured || lane->close_asked.load(std::memory_order_relaxed)) {
    begin_batch(*lane);
    if (!usable(*lane)) {
      lane->busy.unlock();
      return passage;
    }
  }
  lane->unmeasured = unmeasured;
  lane->filled_ns += cost;
  std::atomic<uint64_t>& told = lane->lane.load(std::memory_order_relaxed)->cost_ns;
  told.store(told.load(std::memory_order_relaxed) + cost, std::memory_order_relaxed);
  lane->launches.store(lane->launches.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  passage.lane = lane;
  if (wants_sample(entry)) passage.sample = begin_sample(*lane, entry);
  return passage;
}

void after_launch(const Passage& passage) {
  if (passage.lane == nullptr) return;
  GatedLane& lane = *passage.lane;
  if (passage.sample != nullptr) {
    g_cuda.cuEventRecord(passage.sample->end, lane.stream.load());
    SamplePool::queued(*passage.sample);
  }
  // Others stand still while the latency class has work, so its end is not left to the next launch.
  const wire::ControlGpu& slice = slice_of(lane);
  const bool full = (slice.flags.load(std::memory_order_relaxed) & wire::kSliceLatencyClass) != 0 &&
                    lane.filled_ns >= slice.batch_ns.load(std::memory_order_relaxed);
  const bool close = full || lane.unmeasured || lane.close_asked.load(std::memory_order_relaxed);
  if (close && lane.open.load(std::memory_order_relaxed)) {
    close_batch(lane);
  }
  lane.busy.unlock();
}

void close_batch_of(CUstream stream, bool per_thread) {
  if (capturing(stream, per_thread)) return;
  GatedLane* lane = hold_existing_lane(stream, per_thread);
  if (lane != nullptr) {
    if (lane->open.load()) close_batch_in_its_context(*lane);
    lane->busy.unlock();
  }
  CUcontext current = nullptr;
  g_cuda.cuCtxGetCurrent(&current);
  const GateContext* context = find_gate_context(current, false);
  if (context == nullptr) return;
  if (is_legacy(stream, per_thread)) return close_blocking_streams(*context);
  if (context->open_legacy.load(std::memory_order_relaxed) == nullptr) return;
  unsigned int flags = 0;
  const bool blocking = lane != nullptr ? lane->blocking.load()
                                        : g_cuda.cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS ||
                                              (flags & CU_STREAM_NON_BLOCKING) == 0;
  if (blocking) close_legacy_stream(*context);
}

void before_waiting(CUstream stream, bool per_thread) {
  if (__builtin_expect(g_open_batches.load(std::memory_order_relaxed) == 0, 1)) return;
  if (capturing(stream, per_thread)) return;
  // The legacy stream waits for the others too.
  if (is_legacy(stream, per_thread)) return before_waiting_for_everything();
  GatedLane* lane = existing_lane(stream, per_thread);
  if (lane != nullptr && lane->open.load() && eager(*lane)) close_from_outside(*lane);
}

void before_waiting_for_everything() {
  if (__builtin_expect(g_open_batches.load(std::memory_order_relaxed) == 0, 1)) return;
  if (g_captures.load() != 0) return;
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (lane.open.load() && reachable(lane) && eager(lane)) close_from_outside(lane);
  }
}

void before_waiting_for_event() {
  if (__builtin_expect(g_open_batches.load(std::memory_order_relaxed) == 0, 1)) return;
  const wire::ControlPage* page = control();
  for (uint32_t i = 0; i < page->gpu_count && i < wire::kMaxGpus; ++i) {
    if ((page->gpu[i].flags.load(std::memory_order_relaxed) & wire::kSliceLatencyClass) != 0) {
      return before_waiting_for_everything();
    }
  }
}

BeginCapture::BeginCapture(CUstream stream, bool per_thread) {
  leave_batch(stream, per_thread);
  // While something is captured nobody can close a batch of a legacy stream.
  for (int i = 0; g_open_batches.load(std::memory_order_relaxed) != 0 && i < lane_high(); ++i) {
    if (lane_at(i).is_legacy() && lane_at(i).open.load()) close_from_outside(lane_at(i));
  }
  g_captures.fetch_add(1);
  g_capture_lock.lock();
}

BeginCapture::~BeginCapture() {
  g_capture_lock.unlock();
  if (!begun_) capture_ended();
}

void capture_ended() {
  if (g_captures.fetch_sub(1) <= 0) g_captures.fetch_add(1);
}

MayJoinCapture::MayJoinCapture() : locked_(g_captures.load() != 0) {
  if (locked_) g_capture_lock.lock();
}

MayJoinCapture::~MayJoinCapture() {
  if (locked_) g_capture_lock.unlock();
}

void before_stream_destroyed(CUstream stream) {
  GatedLane* lane = lane_high() == 0 ? nullptr : hold_existing_lane(stream, false);
  if (lane == nullptr) return;
  if (lane->open.load()) close_batch_in_its_context(*lane);
  retire_lane(*lane);
  lane->busy.unlock();
}

void close_lanes_of_this_thread() {
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (lane.key.load() == 0 || !lane.is_per_thread()) continue;
    const SpinLocked busy(lane.busy);
    const GateContext* context = lane.context.load();
    if (lane.key.load() == 0 || lane.thread.load() != this_thread()) continue;
    // A context that is about to go takes its lanes with it.
    if (context == nullptr || context->leaving.load()) continue;
    if (lane.open.load()) close_batch_in_its_context(lane);
    retire_lane(lane);
  }
}

bool close_stale_batches() {
  const bool held = release_overdue_hold();
  if (g_open_batches.load() == 0) return held;
  bool looking = held;
  const bool may_call = keep_holds_off();
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (!lane.open.load() || lane.is_per_thread()) continue;
    looking = true;
    const uint32_t launches = lane.launches.load(std::memory_order_relaxed);
    lane.silent_looks = launches == lane.launches_seen ? lane.silent_looks + 1 : 0;
    lane.launches_seen = launches;
    const wire::Lane& shared = *lane.lane.load();
    const wire::ControlGpu& slice = slice_of(lane);
    const bool silent = lane.silent_looks >= (eager(slice) ? 1 : kSilentLooks);
    const bool runs_behind_closed_gate = (slice.gate.load(std::memory_order_relaxed) & 1) == 0 &&
                                         shared.passed.load() == shared.inserted.load();
    if (may_call && (silent || runs_behind_closed_gate || lane.close_asked.load())) {
      close_from_outside(lane);
    }
  }
  if (may_call) allow_holds();
  return looking;
}

void gate_pages_changed(bool lanes_too) {
  renew_page_addresses(lanes_too);
  for (int i = 0; lanes_too && i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    const SpinLocked busy(lane.busy);
    wire::LanesPage* page = lanes();
    if (lane.key.load() == 0 || lane.lane.load() == &page->lane[i]) continue;
    // Its end would go into the old page, where nobody looks any more.
    set_open(lane, false);
    retire_lane(lane);
  }
}

void gate_context_created(CUcontext context) {
  find_gate_context(context, true);
  start_watcher();
}

void gate_context_may_go(CUcontext context) {
  GateContext* gate = find_gate_context(context, false);
  if (gate == nullptr) return;
  gate_context_leaves(*gate);
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    // Whoever has the lane, the watcher for one, is through with it when we have it.
    const SpinLocked busy(lane.busy);
    if (lane.context.load() != gate || !lane.open.load() || !reachable(lane)) continue;
    if (!capturing(lane.stream.load())) close_batch_in_its_context(lane);
  }
}

void gate_context_stayed(CUcontext context) {
  if (GateContext* gate = find_gate_context(context, false)) gate_context_stays(*gate);
}

void gate_context_gone(CUcontext context) {
  GateContext* gate = find_gate_context(context, false);
  if (gate == nullptr) return;
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    const SpinLocked busy(lane.busy);
    if (lane.context.load() != gate) continue;
    set_open(lane, false);
    free_lane(lane);
  }
  drop_gate_context(*gate);
}

void link_forget_after_fork() {
  gate_contexts_forget_after_fork();
  lanes_forget_after_fork();
  events_forget_after_fork();
  holds_forget_after_fork();
  g_captures.store(0);
  g_open_batches.store(0);
  g_capture_lock.unlock();
  watcher_forget_after_fork();
}

}  // namespace divvy::shim
