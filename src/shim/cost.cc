#include "shim/cost.h"

#include <atomic>

namespace divvy::shim {

struct CostEntry {
  std::atomic<uint64_t> key;  // 0: empty
  std::atomic<uint32_t> ns;   // 0: not sampled yet
  std::atomic<uint32_t> uses;
  std::atomic<uint32_t> begun;    // samples
  std::atomic<uint32_t> learned;  // samples that have come back
};

namespace {

constexpr uint32_t kEntries = 8192;  // a power of two
constexpr int kProbes = 16;
constexpr uint32_t kFirstSamples = 4;
constexpr uint32_t kSampleEvery = 1024;
// Of a running mean: the first samples count alike, then each new one for an eighth.
constexpr uint32_t kMeanOver = 8;
constexpr uint64_t kOutlier = 4;  // times the estimate

CostEntry g_costs[kEntries];

uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

}  // namespace

CostEntry* cost_of(uint64_t key) {
  for (int probe = 0; probe < kProbes; ++probe) {
    CostEntry& entry = g_costs[(key + static_cast<uint64_t>(probe)) & (kEntries - 1)];
    uint64_t found = entry.key.load(std::memory_order_relaxed);
    if (found == 0 && entry.key.compare_exchange_strong(found, key)) return &entry;
    if (found == key) return &entry;
  }
  return nullptr;
}

uint32_t predicted_ns(const CostEntry* entry) {
  const uint32_t ns = entry == nullptr ? 0 : entry->ns.load(std::memory_order_relaxed);
  return ns == 0 ? kUnknownCostNs : ns;
}

bool is_measured(const CostEntry* entry) {
  return entry != nullptr && entry->ns.load(std::memory_order_relaxed) != 0;
}

bool wants_sample(CostEntry* entry) {
  if (entry == nullptr) return false;
  const uint32_t uses = entry->uses.fetch_add(1, std::memory_order_relaxed);
  return uses != 0 &&
         (entry->begun.load(std::memory_order_relaxed) < kFirstSamples || uses % kSampleEvery == 0);
}

void sample_begun(CostEntry* entry) { entry->begun.fetch_add(1, std::memory_order_relaxed); }
void sample_dropped(CostEntry* entry) { entry->begun.fetch_sub(1, std::memory_order_relaxed); }

void learn(CostEntry* entry, uint64_t measured_ns) {
  const uint64_t capped = measured_ns > 4'000'000'000u ? 4'000'000'000u : measured_ns;
  const uint64_t measured = capped < 500 ? 500 : capped;
  const uint64_t known = entry->ns.load(std::memory_order_relaxed);
  const uint32_t before = entry->learned.fetch_add(1, std::memory_order_relaxed);
  uint64_t next = measured;
  if (known != 0) {
    const bool outlier = measured > kOutlier * known;
    const int64_t sample = static_cast<int64_t>(outlier ? kOutlier * known : measured);
    const int64_t weight = (before < kMeanOver ? before + 1 : kMeanOver) * (outlier ? 2 : 1);
    const int64_t mean = static_cast<int64_t>(known);
    next = static_cast<uint64_t>(mean + (sample - mean) / weight);
  }
  entry->ns.store(static_cast<uint32_t>(next > 4'000'000'000u ? 4'000'000'000u : next),
                  std::memory_order_relaxed);
}

uint64_t kernel_key(const void* function, uint64_t blocks) {
  // Grids within an eighth of a power of two of each other count as the same work.
  const uint64_t size = blocks < 8 ? blocks : ([blocks] {
    const int log = 63 - __builtin_clzll(blocks);
    return static_cast<uint64_t>(log) * 8 + ((blocks >> (log - 3)) & 7) + 8;
  }());
  return mix(reinterpret_cast<uint64_t>(function) * 31 + size) | 1;
}

uint64_t graph_key(const void* graph) {
  return mix(reinterpret_cast<uint64_t>(graph) ^ 0x6772617068ull) | 1;
}

}  // namespace divvy::shim
