// A piece of work for a stream, before it is decided whether it runs now or becomes a node of a
// graph: the one way that copies, memsets, host functions, memory operations and kernels take.
//
// Guarded by the driver's mutex.
#pragma once

#include <variant>
#include <vector>

#include "simgpu/driver.h"
#include "simgpu/module.h"

namespace divvy::simgpu {

struct CopyWork {
  CUDA_MEMCPY3D copy{};  // one-dimensional copies too
};
struct MemsetWork {
  CUDA_MEMSET_NODE_PARAMS memset{};
};
struct HostWork {
  CUhostFn function = nullptr;
  void* data = nullptr;
};
struct MemOpWork {
  std::vector<CUstreamBatchMemOpParams> operations;
};
struct EmptyWork {};
// An event of the program's inside a graph (event record and event wait nodes).
struct RecordWork {
  Event* event = nullptr;
};
struct WaitWork {
  Event* event = nullptr;
};
struct AllocWork {  // graph memory nodes
  CUdeviceptr address = 0;
  size_t bytes = 0;
  int device = 0;
};
struct FreeWork {
  CUdeviceptr address = 0;
};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, MemsetWork, HostWork, MemOpWork,
                          RecordWork, WaitWork, AllocWork, FreeWork>;

// Checks memory ranges and arguments as the driver does when the work is submitted.
CUresult check_work(Driver& driver, const Work& work);
// The operations that the work becomes, appended to `ops`, for a context's GPU.
void lower_work(Driver& driver, Context& context, const Work& work, OpList& ops);
// Runs it in the stream, or, when the stream is being captured, adds it to the capture's graph
// (capture.cc: capture_work).
CUresult submit_work(Call& call, Stream& stream, Work&& work);
// In capture.cc: adds `work` as a node behind the stream's capture tail.
CUresult capture_work(Call& call, Stream& stream, Work&& work);

}  // namespace divvy::simgpu
