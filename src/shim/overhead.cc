#include "shim/overhead.h"

#include <pthread.h>
#include <time.h>

#include "shim/charge.h"
#include "shim/locked.h"

namespace divvy::shim {
namespace {

constexpr uint64_t kLazilyNs = 200'000'000;
constexpr uint64_t kAtTheEdgeNs = 10'000'000;

struct Overhead {
  uint64_t charged;
  uint32_t contexts;
  uint64_t measured_ns;  // when
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
Overhead g_overhead[wire::kMaxGpus];

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Holds of this process on the slice that no hook has counted. False when nobody knows.
bool measure_uncounted(int slice, const SliceAccount& account, uint64_t not_counted,
                       uint64_t* bytes) {
  for (int tries = 0;; ++tries) {
    const uint64_t before = bytes_of_this_process(account);
    uint64_t held = 0;
    if (!measure(slice, &held)) return false;
    const uint64_t after = bytes_of_this_process(account);
    // Another thread took or freed memory meanwhile, and the two numbers do not belong together.
    if (before != after && tries < 3) continue;
    const uint64_t larger = before > after ? before : after;
    const uint64_t counted = larger > not_counted ? larger - not_counted : 0;
    *bytes = held > counted ? held - counted : 0;
    return true;
  }
}

bool measured_within(int slice, uint64_t ns) {
  const Locked locked(g_lock);
  return now_ns() - g_overhead[slice].measured_ns < ns;
}

}  // namespace

uint64_t expected_context_bytes(int slice) {
  SliceAccount account;
  if (!account_of(slice, &account)) return 0;
  return account.limit->context_bytes.load(std::memory_order_relaxed);
}

namespace {

// `up_only`: what is being allocated or freed at this moment may make the overhead look smaller
// than it is.
bool remeasure(int slice, uint64_t expected, bool up_only) {
  SliceAccount account;
  if (!account_of(slice, &account)) return false;
  const Locked locked(g_lock);
  Overhead& overhead = g_overhead[slice];
  uint64_t now = 0;
  const bool measured = overhead.contexts != 0 &&
                        measure_uncounted(slice, account, overhead.charged + expected, &now);
  if (overhead.contexts != 0 && !measured) {
    now = overhead.contexts * expected_context_bytes(slice);
    if (now < overhead.charged) now = overhead.charged;
  }
  if (up_only && now < overhead.charged) now = overhead.charged;
  recharge_slice(slice, overhead.charged, now);
  overhead.charged = now;
  overhead.measured_ns = now_ns();
  return measured;
}

}  // namespace

bool measure_overhead(int slice, uint64_t expected) { return remeasure(slice, expected, false); }

bool measure_overhead_lazily(int slice) {
  return slice >= 0 && !measured_within(slice, kLazilyNs) && measure_overhead(slice);
}

void measure_overhead_at_the_edge(int slice, uint64_t expected) {
  if (!measured_within(slice, kAtTheEdgeNs)) remeasure(slice, expected, true);
}

void context_added(int slice) {
  if (slice < 0) return;
  const Locked locked(g_lock);
  ++g_overhead[slice].contexts;
}

void context_removed(int slice) {
  if (slice < 0) return;
  const Locked locked(g_lock);
  if (g_overhead[slice].contexts > 0) --g_overhead[slice].contexts;
}

void forget_overhead_of_parent() {
  g_lock = PTHREAD_MUTEX_INITIALIZER;
  for (Overhead& overhead : g_overhead) overhead = {};
}

}  // namespace divvy::shim
