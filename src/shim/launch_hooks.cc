// Hooks of launches, captures and waits. Each asks once whether the tenant is gated and otherwise
// goes straight on.
#include "shim/cost.h"
#include "shim/export.h"
#include "shim/gate.h"
#include "shim/graph_memory.h"
#include "shim/pools.h"

using divvy::shim::after_launch;
using divvy::shim::before_launch;
using divvy::shim::before_waiting;
using divvy::shim::before_waiting_for_everything;
using divvy::shim::g_cuda;
using divvy::shim::gated;
using divvy::shim::graph_key;
using divvy::shim::GraphRoom;
using divvy::shim::kernel_key;
using divvy::shim::Passage;

namespace {

uint64_t blocks(unsigned x, unsigned y, unsigned z) { return uint64_t{x} * y * z; }

template <typename Real, typename... Arguments>
CUresult launch(CUstream stream, bool per_thread, uint64_t key, Real real, Arguments... arguments) {
  const Passage passage = before_launch(stream, per_thread, key);
  const CUresult result = real(arguments...);
  after_launch(passage);
  return result;
}

// The driver may have given memory back that pools kept.
CUresult waited(CUresult result) {
  divvy::shim::pools_after_wait();
  return result;
}

template <typename Real, typename... Arguments>
CUresult begin_capture(CUstream stream, bool per_thread, Real real, Arguments... arguments) {
  divvy::shim::BeginCapture capture(stream, per_thread);
  const CUresult result = real(stream, arguments...);
  if (result == CUDA_SUCCESS) capture.begun();
  return result;
}

template <typename Real>
CUresult end_capture(CUstream stream, bool per_thread, Real real, CUgraph* graph) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  g_cuda.cuStreamIsCapturing(per_thread && stream == nullptr ? CU_STREAM_PER_THREAD : stream,
                             &status);
  const CUresult result = real(stream, graph);
  // On any other stream than the one it began on, the capture goes on.
  const bool goes_on =
      result == CUDA_ERROR_ILLEGAL_STATE || result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (status != CU_STREAM_CAPTURE_STATUS_NONE && !goes_on) divvy::shim::capture_ended();
  return result;
}

}  // namespace

#define DIVVY_LAUNCH_HOOKS(suffix, per_thread)                                                     \
  DIVVY_EXPORT CUresult cuLaunchKernel##suffix(                                                    \
      CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
      unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {            \
    DIVVY_NEED(cuLaunchKernel##suffix);                                                            \
    if (!gated()) {                                                                                \
      return g_cuda.cuLaunchKernel##suffix(function, gx, gy, gz, bx, by, bz, shared, stream,       \
                                           parameters, extra);                                     \
    }                                                                                              \
    return launch(stream, per_thread, kernel_key(function, blocks(gx, gy, gz)),                    \
                  g_cuda.cuLaunchKernel##suffix, function, gx, gy, gz, bx, by, bz, shared, stream, \
                  parameters, extra);                                                              \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuLaunchKernelEx##suffix(                                                  \
      const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {        \
    DIVVY_NEED(cuLaunchKernelEx##suffix);                                                          \
    if (!gated() || config == nullptr) {                                                           \
      return g_cuda.cuLaunchKernelEx##suffix(config, function, parameters, extra);                 \
    }                                                                                              \
    const uint64_t grid = blocks(config->gridDimX, config->gridDimY, config->gridDimZ);            \
    return launch(config->hStream, per_thread, kernel_key(function, grid),                         \
                  g_cuda.cuLaunchKernelEx##suffix, config, function, parameters, extra);           \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuLaunchCooperativeKernel##suffix(                                         \
      CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
      unsigned bz, unsigned shared, CUstream stream, void** parameters) {                          \
    DIVVY_NEED(cuLaunchCooperativeKernel##suffix);                                                 \
    if (!gated()) {                                                                                \
      return g_cuda.cuLaunchCooperativeKernel##suffix(function, gx, gy, gz, bx, by, bz, shared,    \
                                                      stream, parameters);                         \
    }                                                                                              \
    return launch(stream, per_thread, kernel_key(function, blocks(gx, gy, gz)),                    \
                  g_cuda.cuLaunchCooperativeKernel##suffix, function, gx, gy, gz, bx, by, bz,      \
                  shared, stream, parameters);                                                     \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuGraphLaunch##suffix(CUgraphExec graph, CUstream stream) {                \
    DIVVY_NEED(cuGraphLaunch##suffix);                                                             \
    const GraphRoom room(graph);                                                                   \
    if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;                                           \
    if (!gated()) return g_cuda.cuGraphLaunch##suffix(graph, stream);                              \
    return launch(stream, per_thread, graph_key(graph), g_cuda.cuGraphLaunch##suffix, graph,       \
                  stream);                                                                         \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuStreamBeginCapture##suffix(CUstream stream) {                            \
    DIVVY_NEED(cuStreamBeginCapture##suffix);                                                      \
    return begin_capture(stream, per_thread, g_cuda.cuStreamBeginCapture##suffix);                 \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuStreamBeginCapture_v2##suffix(CUstream stream,                           \
                                                        CUstreamCaptureMode mode) {                \
    DIVVY_NEED(cuStreamBeginCapture_v2##suffix);                                                   \
    return begin_capture(stream, per_thread, g_cuda.cuStreamBeginCapture_v2##suffix, mode);        \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuStreamBeginCaptureToGraph##suffix(                                       \
      CUstream stream, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* edges,      \
      size_t count, CUstreamCaptureMode mode) {                                                    \
    DIVVY_NEED(cuStreamBeginCaptureToGraph##suffix);                                               \
    return begin_capture(stream, per_thread, g_cuda.cuStreamBeginCaptureToGraph##suffix, graph,    \
                         nodes, edges, count, mode);                                               \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuStreamEndCapture##suffix(CUstream stream, CUgraph* graph) {              \
    DIVVY_NEED(cuStreamEndCapture##suffix);                                                        \
    return end_capture(stream, per_thread, g_cuda.cuStreamEndCapture##suffix, graph);              \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuStreamSynchronize##suffix(CUstream stream) {                             \
    DIVVY_NEED(cuStreamSynchronize##suffix);                                                       \
    before_waiting(stream, per_thread);                                                            \
    return waited(g_cuda.cuStreamSynchronize##suffix(stream));                                     \
  }

DIVVY_LAUNCH_HOOKS(, false)
DIVVY_LAUNCH_HOOKS(_ptsz, true)

DIVVY_EXPORT CUresult cuCtxSynchronize() {
  DIVVY_NEED(cuCtxSynchronize);
  before_waiting_for_everything();
  return waited(g_cuda.cuCtxSynchronize());
}

DIVVY_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
  DIVVY_NEED(cuCtxSynchronize_v2);
  before_waiting_for_everything();
  return waited(g_cuda.cuCtxSynchronize_v2(context));
}

DIVVY_EXPORT CUresult cuEventSynchronize(CUevent event) {
  DIVVY_NEED(cuEventSynchronize);
  divvy::shim::before_waiting_for_event();
  return waited(g_cuda.cuEventSynchronize(event));
}

DIVVY_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  DIVVY_NEED(cuStreamDestroy);
  divvy::shim::before_stream_destroyed(stream);
  return g_cuda.cuStreamDestroy(stream);
}

DIVVY_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  DIVVY_NEED(cuStreamDestroy_v2);
  divvy::shim::before_stream_destroyed(stream);
  return g_cuda.cuStreamDestroy_v2(stream);
}

// --- Launches of old, which some drivers still have ---

DIVVY_EXPORT CUresult cuLaunch(CUfunction function) {
  DIVVY_NEED(cuLaunch);
  if (!gated()) return g_cuda.cuLaunch(function);
  return launch(nullptr, false, kernel_key(function, 1), g_cuda.cuLaunch, function);
}

DIVVY_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  DIVVY_NEED(cuLaunchGrid);
  if (!gated()) return g_cuda.cuLaunchGrid(function, width, height);
  const uint64_t grid = blocks(static_cast<unsigned>(width), static_cast<unsigned>(height), 1);
  return launch(nullptr, false, kernel_key(function, grid), g_cuda.cuLaunchGrid, function, width,
                height);
}

DIVVY_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height,
                                        CUstream stream) {
  DIVVY_NEED(cuLaunchGridAsync);
  if (!gated()) return g_cuda.cuLaunchGridAsync(function, width, height, stream);
  const uint64_t grid = blocks(static_cast<unsigned>(width), static_cast<unsigned>(height), 1);
  return launch(stream, false, kernel_key(function, grid), g_cuda.cuLaunchGridAsync, function,
                width, height, stream);
}

// One launch on several GPUs, of kernels that wait for each other. Each of its streams passes its
// own gate first; the GPUs of one tenant are opened independently, so a gate that stays closed
// longer holds up the others no longer than a lease.
DIVVY_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(void* launches, unsigned count,
                                                           unsigned flags) {
  DIVVY_NEED(cuLaunchCooperativeKernelMultiDevice);
  struct Launch {
    CUfunction function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared;
    CUstream stream;
    void** parameters;
  };
  const auto* each = static_cast<const Launch*>(launches);
  // Not measured: there is no launch between this before and this after.
  for (unsigned i = 0; gated() && each != nullptr && i < count; ++i) {
    after_launch(before_launch(each[i].stream, false, 0, divvy::shim::kUnknownCostNs));
  }
  return g_cuda.cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
}
