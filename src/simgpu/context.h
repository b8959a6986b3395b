// A context: one process's presence on one GPU, with its streams and its turn on the timeline.
//
// Guarded by the driver's mutex.
#pragma once

#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "simgpu/stream.h"
#include "simgpu/timeline.h"

namespace divvy::simgpu {

struct Context {
  int device = 0;
  bool primary = false;
  uint32_t flags = 0;
  uint64_t id = 0;
  unsigned version = 0;            // CUDA API version it was created with
  CUresult sticky = CUDA_SUCCESS;  // an error that stays until the context is gone
  uint32_t ecc_epoch = 0;          // ECC errors that happened before it was made
  std::unique_ptr<Timeline> timeline;
  int channel = -1;
  Timeline::Turn turn;       // as of the last look
  uint64_t cursor_ns = 0;    // its kernels are settled up to here
  unsigned mps_threads = 0;  // per cent of the GPU that it has to itself; 0: it takes turns
  size_t limits[16] = {};
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;

  std::unique_ptr<Stream> legacy;                           // the NULL stream
  std::unordered_map<std::thread::id, Stream*> per_thread;  // CU_STREAM_PER_THREAD
  std::vector<Stream*> streams;                             // all of them, legacy included
  std::set<int> peers;                                      // devices made accessible
};

}  // namespace divvy::simgpu
