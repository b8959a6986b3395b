// The kernels that gpuload runs, as PTX text that any driver for Volta or newer compiles by itself.
//
// Each kernel has one comment line that begins with `//@simgpu`. A real driver skips it; the
// simulated driver executes no PTX and reads from it how long the kernel takes and what it writes.
#pragma once

namespace divvy::gpuload {

//   spin(u64 iterations, u64 sink)            a fixed amount of dependent work; `sink` is 4
//   writable bytes stream_copy(u64 to, u64 from, u64 n)      copies n pieces of 16 bytes fill32(u64
//   to, u64 count, u32 value)      writes `count` words empty()
extern const char* const kKernelText;

// Threads in a block of `spin`: a divisor of every GPU's threads per multiprocessor, so that whole
// blocks can fill one to the last thread.
constexpr unsigned kSpinThreads = 512;
constexpr unsigned kCopyThreads = 256;

}  // namespace divvy::gpuload
