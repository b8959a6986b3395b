// Memory that the driver takes without being asked for bytes: contexts, modules, stacks and heaps.
//
// It is measured: what the driver holds for this process, less what its hooks have counted, is
// overhead. The daemon measures, so this costs a round trip and belongs to rare calls. Any thread.
#pragma once

#include <cstdint>

namespace divvy::shim {

// Counts the overhead on a slice anew. When nobody can measure, a context counts what the daemon
// says that one costs, and the answer is false. `expected`: bytes that the caller has taken from
// the slice for what is now measured.
bool measure_overhead(int slice, uint64_t expected = 0);

// The same after a call that programs make hundreds of times while they start (loading modules):
// measured only now and then. What is missed the daemon finds by itself a little later. True when
// it was measured.
bool measure_overhead_lazily(int slice);

// The same near the limit, where it matters more: measured again after a few milliseconds.
void measure_overhead_at_the_edge(int slice, uint64_t expected);

// A context came to be on a slice or went; measure_overhead() is called afterwards.
void context_added(int slice);
void context_removed(int slice);

// What to take from the slice before a context is made; 0 when its cost is not known.
uint64_t expected_context_bytes(int slice);

void forget_overhead_of_parent();

}  // namespace divvy::shim
