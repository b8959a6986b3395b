#include "shim/event_order.h"

#include <stddef.h>

#include <atomic>

#include "shim/gate.h"
#include "shim/lane_table.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

// An entry is one word, so that it is read and replaced as a whole: 34 bits of the event's handle,
// 9 of the lane's index, and the low 21 of the batch's number. The other bits of the handle choose
// the set. Handles are aligned pointers of 48 bits; others are not remembered.
constexpr unsigned kAlignBits = 4;
constexpr unsigned kHandleBits = 44;
constexpr unsigned kSetBits = 10;
constexpr unsigned kLaneBits = 9;
constexpr unsigned kBatchBits = 21;
constexpr unsigned kTagBits = kHandleBits - kSetBits;
static_assert(kTagBits + kLaneBits + kBatchBits == 64);
static_assert(wire::kMaxLanes <= 1 << kLaneBits);
constexpr int kWays = 4;
constexpr uint32_t kBatchMask = (1u << kBatchBits) - 1;
// A stream never holds so many batches: whoever is as old as this has happened.
constexpr uint32_t kOldest = 1u << (kBatchBits - 1);

using Set = std::atomic<uint64_t>[kWays];
constinit Set g_events[1u << kSetBits] = {};

struct Key {
  std::atomic<uint64_t>* set = nullptr;  // null: a handle that is not remembered
  uint64_t tag = 0;                      // in its place in the word
};

Key key_of(CUevent event) {
  const auto handle = reinterpret_cast<uint64_t>(event);
  const uint64_t number = handle >> kAlignBits;
  if (number == 0 || number << kAlignBits != handle || number >> kHandleBits != 0) return {};
  // Odd, so that different handles stay different.
  const uint64_t mixed = number * 0x9e3779b97f5ull & ((uint64_t{1} << kHandleBits) - 1);
  return {g_events[mixed >> kTagBits], mixed << (kLaneBits + kBatchBits)};
}

bool has_tag(uint64_t word, uint64_t tag) {
  return word != 0 && word >> (kLaneBits + kBatchBits) == tag >> (kLaneBits + kBatchBits);
}

void remember(const Key& key, const StreamPlace& place) {
  const uint64_t word =
      key.tag | static_cast<uint64_t>(place.lane) << kBatchBits | (place.batch & kBatchMask);
  std::atomic<uint64_t>* way = nullptr;
  for (int i = 0; i < kWays; ++i) {
    const uint64_t seen = key.set[i].load(std::memory_order_relaxed);
    if (has_tag(seen, key.tag)) {
      way = &key.set[i];
      break;
    }
    if (seen == 0) way = &key.set[i];
  }
  // Full: any of them goes. Its event is only waited for as it would be without us.
  if (way == nullptr) way = &key.set[place.batch % kWays];
  way->store(word, std::memory_order_relaxed);
}

// The batch is always one that was begun: numbers are completed from the last of the lane, and
// continue when a lane is used for another stream. So what is waited for comes, even if the event
// was recorded anew where nobody saw it.
StreamPlace place_of(CUevent event) {
  const Key key = key_of(event);
  for (int i = 0; key.set != nullptr && i < kWays; ++i) {
    const uint64_t word = key.set[i].load(std::memory_order_relaxed);
    if (!has_tag(word, key.tag)) continue;
    StreamPlace place;
    place.lane = static_cast<int>(word >> kBatchBits & ((1u << kLaneBits) - 1));
    const uint32_t last = lane_at(place.lane).batch.load(std::memory_order_acquire);
    const uint32_t age = (last - static_cast<uint32_t>(word)) & kBatchMask;
    if (age >= kOldest) return {};
    place.batch = last - age;
    return place;
  }
  return {};
}

bool stands_at_gate(const wire::Lane& lane, uint32_t batch) {
  const auto state = static_cast<wire::LaneState>(lane.state.load(std::memory_order_relaxed));
  if (state != wire::LaneState::kLive && state != wire::LaneState::kRetiring) return false;
  return static_cast<int32_t>(lane.passed.load(std::memory_order_relaxed) - batch) < 0;
}

// In another context than the lane's it may be waited for when that one has failed.
bool in_context(CUstream stream, CUcontext context) {
  CUcontext of_stream = nullptr;
  if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    g_cuda.cuCtxGetCurrent(&of_stream);
  } else if (g_cuda.cuStreamGetCtx(stream, &of_stream) != CUDA_SUCCESS) {
    return false;
  }
  return of_stream == context;
}

}  // namespace

StreamPlace end_of_stream(CUstream stream, bool per_thread) {
  // An event of a captured stream is none that happens.
  if (anything_captured()) return {};
  const GatedLane* lane = existing_lane(stream, per_thread);
  if (lane == nullptr) return {};
  return {static_cast<int>(lane - &lane_at(0)), lane->batch.load(std::memory_order_relaxed)};
}

void event_recorded(CUevent event, const StreamPlace& place) {
  if (place.lane < 0) return forget_event(event);
  const Key key = key_of(event);
  if (key.set != nullptr) remember(key, place);
}

void forget_event(CUevent event) {
  const Key key = key_of(event);
  for (int i = 0; key.set != nullptr && i < kWays; ++i) {
    uint64_t word = key.set[i].load(std::memory_order_relaxed);
    if (has_tag(word, key.tag)) key.set[i].compare_exchange_strong(word, 0);
  }
}

void wait_for_batch_of(CUevent event, CUstream stream, bool per_thread) {
  if (anything_captured()) return;
  const StreamPlace place = place_of(event);
  if (place.lane < 0) return;
  const GatedLane& lane = lane_at(place.lane);
  const wire::Lane* shared = lane.lane.load();
  const GateContext* context = lane.context.load();
  if (shared == nullptr || context == nullptr || !stands_at_gate(*shared, place.batch)) return;
  if (existing_lane(stream, per_thread) == &lane) return;
  wire::LanesPage* page = nullptr;
  const uint64_t address = page_of(*context, &page);
  // Not so when the pages were replaced and the lane is of the old one.
  if (address == 0 || page == nullptr || shared != &page->lane[place.lane]) return;
  if (stream == nullptr) stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (!in_context(stream, context->context.load())) return;
  const Current current(context->context.load());
  if (!current) return;
  CUstreamBatchMemOpParams wait{};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = address + offsetof(wire::LanesPage, lane) +
                           static_cast<uint64_t>(place.lane) * sizeof(wire::Lane) +
                           offsetof(wire::Lane, passed);
  wait.waitValue.value = place.batch;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  // Refused: the real wait alone is right too.
  g_cuda.cuStreamBatchMemOp_v2(stream, 1, &wait, 0);
}

void events_forget_after_fork() {
  for (Set& set : g_events) {
    for (std::atomic<uint64_t>& word : set) word.store(0, std::memory_order_relaxed);
  }
}

}  // namespace divvy::shim
