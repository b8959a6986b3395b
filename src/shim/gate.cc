#include "shim/gate.h"

#include "shim/cost.h"
#include "shim/gate_context.h"
#include "shim/lane_table.h"
#include "shim/link.h"
#include "shim/real.h"
#include "shim/watcher.h"

namespace divvy::shim {
namespace {

std::atomic<int> g_captures{0};
std::atomic<int> g_open_batches{0};

uint64_t address_of(const GatedLane& lane, const std::atomic<uint32_t>& field) {
  const auto offset = reinterpret_cast<const char*>(&field) - reinterpret_cast<char*>(lanes());
  return lane.context->lanes + static_cast<uint64_t>(offset);
}

// A few memory operations that go into a stream together.
class Operations {
 public:
  void wait_for_gate(const GatedLane& lane) {
    auto& op = op_[count_++].waitValue;
    op = {};
    op.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.address = lane.context->gate.load(std::memory_order_relaxed);
    op.value = 1;
    op.flags = CU_STREAM_WAIT_VALUE_AND;
  }
  void write(const GatedLane& lane, const std::atomic<uint32_t>& field, uint32_t value) {
    auto& op = op_[count_++].writeValue;
    op = {};
    op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.address = address_of(lane, field);
    op.value = value;
    op.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  }
  bool put_into(const GatedLane& lane) {
    return g_cuda.cuStreamBatchMemOp_v2(lane.stream, count_, op_, 0) == CUDA_SUCCESS;
  }

 private:
  CUstreamBatchMemOpParams op_[3];
  unsigned count_ = 0;
};

bool capturing(CUstream stream) {
  if (g_captures.load(std::memory_order_relaxed) == 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error means that the stream may not be touched now, which is as good as capturing.
  return g_cuda.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The context is broken, or the driver takes no memory operations on this stream: the arbiter must
// not wait for what will never be written.
void give_up(GatedLane& lane) {
  if (lane.open.exchange(false)) g_open_batches.fetch_sub(1);
  lane.lane->state.store(static_cast<uint32_t>(wire::LaneState::kDead));
}

bool usable(const GatedLane& lane) {
  return lane.lane->state.load(std::memory_order_relaxed) ==
         static_cast<uint32_t>(wire::LaneState::kLive);
}

// Puts the end of a batch into a stream whose context may not be the calling thread's.
bool put_end(GatedLane& lane) {
  Operations end;
  end.write(lane, lane.lane->done, lane.batch);
  const CUcontext context = lane.context->context.load(std::memory_order_relaxed);
  CUcontext current = nullptr;
  g_cuda.cuCtxGetCurrent(&current);
  if (current == context) return end.put_into(lane);
  if (g_cuda.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) return false;
  const bool put = end.put_into(lane);
  g_cuda.cuCtxPopCurrent_v2(&current);
  return put;
}

// With `busy` held and an open batch.
void close_batch(GatedLane& lane) {
  if (!put_end(lane)) return give_up(lane);
  lane.lane->closed.store(lane.batch, std::memory_order_release);
  lane.open.store(false);
  g_open_batches.fetch_sub(1);
}

// With `busy` held. The end of the batch before goes into the stream with the same call.
void begin_batch(GatedLane& lane) {
  const bool was_open = lane.open.load(std::memory_order_relaxed);
  const uint32_t next = lane.batch + 1;
  // The daemon must see that a batch stands at the gate before the GPU can say it has passed.
  lane.lane->inserted.store(next, std::memory_order_seq_cst);
  Operations turn;
  if (was_open) turn.write(lane, lane.lane->done, lane.batch);
  turn.wait_for_gate(lane);
  turn.write(lane, lane.lane->passed, next);
  if (!turn.put_into(lane)) return give_up(lane);
  if (was_open) {
    lane.lane->closed.store(lane.batch, std::memory_order_release);
  } else {
    lane.open.store(true);
    g_open_batches.fetch_add(1);
  }
  lane.batch = next;
  lane.filled_ns = 0;
  if (control()->asleep.load(std::memory_order_seq_cst) != 0) ring_doorbell();
  wake_watcher();
  if (g_captures.load(std::memory_order_relaxed) == 0) collect_samples(*lane.context);
}

// Whatever thread holds the lane is launching into it; it will close the batch itself or leave it
// to the watcher.
void try_to_close(GatedLane& lane) {
  if (!lane.open.load() || !lane.busy.try_lock()) return;
  if (lane.open.load() && lane.context != nullptr) close_batch(lane);
  lane.busy.unlock();
}

}  // namespace

Passage before_launch(CUstream stream, bool per_thread, uint64_t key, uint32_t known_ns) {
  Passage passage;
  if (capturing(stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream)) return passage;
  GatedLane* lane = lane_of(stream, per_thread);
  if (lane == nullptr || !usable(*lane)) return passage;
  const wire::ControlGpu& slice = control()->gpu[lane->context->slice];
  lane->busy.lock();
  if (slice.mode.load(std::memory_order_relaxed) != static_cast<uint32_t>(wire::Mode::kGated)) {
    lane->busy.unlock();
    return passage;
  }
  CostEntry* entry = key != 0 ? cost_of(key) : nullptr;
  const uint32_t cost = key != 0 ? predicted_ns(entry) : known_ns;
  const uint32_t batch_ns = slice.batch_ns.load(std::memory_order_relaxed);
  if (!lane->open.load(std::memory_order_relaxed) || lane->filled_ns + cost / 2 >= batch_ns) {
    begin_batch(*lane);
    if (!usable(*lane)) {
      lane->busy.unlock();
      return passage;
    }
  }
  lane->filled_ns += cost;
  lane->launches.fetch_add(1, std::memory_order_relaxed);
  passage.lane = lane;
  if (wants_sample(entry) && g_captures.load(std::memory_order_relaxed) == 0) {
    passage.sample = take_sample(*lane->context, entry);
    if (passage.sample != nullptr) g_cuda.cuEventRecord(passage.sample->begin, lane->stream);
  }
  return passage;
}

void after_launch(const Passage& passage) {
  if (passage.lane == nullptr) return;
  if (passage.sample != nullptr) {
    g_cuda.cuEventRecord(passage.sample->end, passage.lane->stream);
    passage.sample->state.store(Sample::kInFlight, std::memory_order_release);
  }
  // Others stand still while the latency class has work, so its end is not left to the next launch.
  GatedLane& lane = *passage.lane;
  const wire::ControlGpu& slice = control()->gpu[lane.context->slice];
  if ((slice.flags.load(std::memory_order_relaxed) & wire::kSliceLatencyClass) != 0 &&
      lane.filled_ns >= slice.batch_ns.load(std::memory_order_relaxed) && lane.open.load()) {
    close_batch(lane);
  }
  lane.busy.unlock();
}

void before_waiting(CUstream stream, bool per_thread) {
  if (__builtin_expect(g_open_batches.load(std::memory_order_relaxed) == 0, 1)) return;
  if (capturing(stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream)) return;
  // The legacy stream waits for the others too.
  const bool legacy = stream == CU_STREAM_LEGACY || (stream == nullptr && !per_thread);
  if (legacy) return before_waiting_for_everything();
  if (GatedLane* lane = existing_lane(stream, per_thread)) try_to_close(*lane);
}

void before_waiting_for_everything() {
  if (__builtin_expect(g_open_batches.load(std::memory_order_relaxed) == 0, 1)) return;
  if (g_captures.load(std::memory_order_relaxed) != 0) return;
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (lane.stream != CU_STREAM_PER_THREAD) try_to_close(lane);
  }
  if (GatedLane* own = existing_lane(CU_STREAM_PER_THREAD, true)) try_to_close(*own);
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

void before_capture() {
  before_waiting_for_everything();
  g_captures.fetch_add(1);
}

void capture_failed_or_ended() {
  if (g_captures.fetch_sub(1) <= 0) g_captures.fetch_add(1);
}

void before_stream_destroyed(CUstream stream) {
  GatedLane* lane = lane_high() == 0 ? nullptr : existing_lane(stream, false);
  if (lane == nullptr) return;
  lane->busy.lock();
  if (lane->open.load()) close_batch(*lane);
  retire_lane(*lane);
  lane->busy.unlock();
}

bool close_stale_batches() {
  if (g_open_batches.load() == 0) return false;
  // While something is captured, the legacy stream belongs to nobody else (gate.h).
  const bool captures = g_captures.load() != 0;
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (!lane.open.load() || lane.stream == CU_STREAM_PER_THREAD) continue;
    if (captures && lane.stream == CU_STREAM_LEGACY) continue;
    const uint32_t launches = lane.launches.load(std::memory_order_relaxed);
    const bool silent = launches == lane.launches_seen;
    lane.launches_seen = launches;
    const bool closed =
        (control()->gpu[lane.lane->gpu.load()].gate.load(std::memory_order_relaxed) & 1) == 0;
    const bool runs = lane.lane->passed.load() == lane.batch;
    if (silent || (closed && runs)) try_to_close(lane);
  }
  return true;
}

void gate_control_changed() { renew_gate_addresses(); }

void gate_context_created(CUcontext context, CUdevice) {
  find_gate_context(context, true);
  start_watcher();
}

void gate_context_gone(CUcontext context) {
  const GateContext* gate = find_gate_context(context, false);
  if (gate == nullptr) return;
  for (int i = 0; i < lane_high(); ++i) {
    GatedLane& lane = lane_at(i);
    if (lane.context == gate && lane.open.load()) g_open_batches.fetch_sub(1);
  }
  free_lanes_of(*gate);
  drop_gate_context(context);
}

void link_forget_after_fork() {
  gate_contexts_forget_after_fork();
  lanes_forget_after_fork();
  g_captures.store(0);
  g_open_batches.store(0);
  watcher_forget_after_fork();
}

}  // namespace divvy::shim
