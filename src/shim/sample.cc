#include "shim/sample.h"

#include "shim/real.h"

namespace divvy::shim {
namespace {

enum Holder : uint32_t { kNobody, kSample, kWatcher };
std::atomic<uint32_t> g_holder{kNobody};
std::atomic<uint32_t> g_ticket{0};  // of the last hold
std::atomic<wire::LanesPage*> g_page{nullptr};
uint32_t g_seen_ticket = 0;  // by the watcher's last look
constexpr float kLongestEventMs = 0.01F;

bool take_token(Holder who) {
  uint32_t nobody = kNobody;
  return g_holder.compare_exchange_strong(nobody, who);
}

// Tickets wrap. False: it was released before.
bool release(wire::LanesPage& page, uint32_t ticket) {
  std::atomic<uint32_t>& released = page.released;
  uint32_t now = released.load();
  while (static_cast<int32_t>(ticket - now) > 0) {
    if (released.compare_exchange_weak(now, ticket)) return true;
  }
  return false;
}

}  // namespace

Sample* SamplePool::take(CostEntry* entry, wire::LanesPage* page) {
  if (!take_token(kSample)) return nullptr;
  for (Sample& sample : sample_) {
    uint32_t free = Sample::kFree;
    if (!sample.state.compare_exchange_strong(free, Sample::kTaken)) continue;
    if (sample.end == nullptr &&
        (g_cuda.cuEventCreate(&sample.before, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
         g_cuda.cuEventCreate(&sample.begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
         g_cuda.cuEventCreate(&sample.end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)) {
      break;  // stays taken: this context makes no more events
    }
    sample.entry = entry;
    sample.page = page;
    g_page.store(page);
    sample.ticket = g_ticket.fetch_add(1) + 1;
    sample_begun(entry);
    return &sample;
  }
  g_holder.store(kNobody);
  return nullptr;
}

void SamplePool::queued(Sample& sample) {
  const bool exact = release(*sample.page, sample.ticket);
  g_holder.store(kNobody);
  if (!exact) sample_dropped(sample.entry);
  sample.state.store(exact ? Sample::kInFlight : Sample::kFree, std::memory_order_release);
}

void SamplePool::drop(Sample& sample) {
  release(*sample.page, sample.ticket);
  g_holder.store(kNobody);
  sample_dropped(sample.entry);
  sample.state.store(Sample::kFree, std::memory_order_release);
}

void SamplePool::collect() {
  for (Sample& sample : sample_) {
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
    float event_ms = 0;
    const auto elapsed = g_cuda.cuEventElapsedTime_v2 != nullptr ? g_cuda.cuEventElapsedTime_v2
                                                                 : g_cuda.cuEventElapsedTime;
    if (ended == CUDA_SUCCESS && elapsed(&ms, sample.begin, sample.end) == CUDA_SUCCESS &&
        elapsed(&event_ms, sample.before, sample.begin) == CUDA_SUCCESS) {
      // Another's time slice may lie between the events; it is not taken off.
      const float event = event_ms < kLongestEventMs ? event_ms : 0;
      const float kernel = ms > event ? ms - event : 0;
      learn(sample.entry, static_cast<uint64_t>(static_cast<double>(kernel) * 1e6));
    }
    sample.state.store(Sample::kFree);
  }
}

void SamplePool::forget() {
  for (Sample& sample : sample_) {
    sample.before = sample.begin = sample.end = nullptr;
    sample.state.store(Sample::kFree);
  }
}

bool release_overdue_hold() {
  if (g_holder.load() != kSample) return false;
  const uint32_t ticket = g_ticket.load();
  if (wire::LanesPage* page = g_page.load(); page != nullptr && ticket == g_seen_ticket) {
    release(*page, ticket);
  }
  g_seen_ticket = ticket;
  return true;
}

bool keep_holds_off() { return take_token(kWatcher); }
void allow_holds() { g_holder.store(kNobody); }

void holds_forget_after_fork() {
  g_holder.store(kNobody);
  g_page.store(nullptr);
  g_ticket.store(0);
  g_seen_ticket = 0;
}

}  // namespace divvy::shim
