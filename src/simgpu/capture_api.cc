// The exported functions of stream capture.
#include <algorithm>

#include "simgpu/capture.h"
#include "simgpu/graph.h"

namespace divvy::simgpu {
namespace {

// The common beginning: a call on one stream.
struct CaptureCall : Call {
  explicit CaptureCall(CUstream handle) : Call(kContext) {
    if (error == CUDA_SUCCESS) error = driver.resolve_stream(handle, context, &stream);
  }
  Stream* stream = nullptr;
};

CUresult begin(CUstream handle, CUstreamCaptureMode mode) {
  CaptureCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!valid_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  if (call.stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (call.stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Graphs& graphs = call.driver.graphs();
  auto graph = make_graph(graphs);
  Graph& made = *graph;
  graphs.owned[&made] = std::move(graph);
  begin_capture(call.driver, *call.stream, mode, made);
  return CUDA_SUCCESS;
}

CUresult begin_to_graph(CUstream handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                        const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  CaptureCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  Graph* graph = resolve_graph(call.driver, graph_handle);
  if (graph == nullptr || graph->owner != nullptr || !valid_mode(mode)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (call.stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (call.stream->capture != nullptr || graph->being_captured) return CUDA_ERROR_ILLEGAL_STATE;
  std::vector<GraphEdge> edges;
  if (CUresult bad = read_dependencies(call.driver, *graph, dependencies, data, count,
                                       CU_GRAPH_NODE_TYPE_KERNEL, &edges)) {
    return bad;
  }
  begin_capture(call.driver, *call.stream, mode, *graph);
  auto& tail_data = call.stream->capture->tail_data;
  for (const GraphEdge& edge : edges) {
    call.stream->capture_tail.push_back(handle_of(edge.node));
    if (data != nullptr) tail_data[call.stream].push_back(edge.data);
  }
  return CUDA_SUCCESS;
}

CUresult end(CUstream handle, CUgraph* out) {
  if (out != nullptr) *out = nullptr;
  CaptureCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (call.stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Capture& capture = *call.stream->capture;
  if (capture.origin != call.stream) {
    capture.invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult result = CUDA_SUCCESS;
  if (capture.invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (capture.thread != std::this_thread::get_id() &&
             capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else if (unjoined(capture)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  // Whatever came of it, the streams leave capture mode.
  Graph* graph = capture.graph;
  end_capture(call.driver, capture, result == CUDA_SUCCESS);
  if (result == CUDA_SUCCESS && out != nullptr) *out = handle_of(graph);
  return result;
}

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// Asking about the legacy stream while a blocking stream is captured has no answer, but unlike
// using it does no harm.
bool legacy_is_in_the_way(Driver& driver, const Stream& stream) {
  if (!stream.is_legacy) return false;
  for (const auto& capture : driver.graphs().captures) {
    for (const Stream* other : capture->streams) {
      if (other->context == stream.context && (other->flags & CU_STREAM_NON_BLOCKING) == 0) {
        return true;
      }
    }
  }
  return false;
}

struct Info {
  CUstreamCaptureStatus* status = nullptr;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** data = nullptr;
  size_t* count = nullptr;
};

// Only an active capture has more to tell than its status. What the pointers lead to holds until
// the next call on the stream.
CUresult get_info(CUstream handle, const Info& info) {
  CaptureCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (info.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream& stream = *call.stream;
  if (legacy_is_in_the_way(call.driver, stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *info.status = status_of(stream);
  if (*info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  Capture& capture = *stream.capture;
  if (info.id != nullptr) *info.id = capture.id;
  if (info.graph != nullptr) *info.graph = handle_of(capture.graph);
  if (info.nodes != nullptr) *info.nodes = stream.capture_tail.data();
  if (info.count != nullptr) *info.count = stream.capture_tail.size();
  if (info.data != nullptr) {
    auto& data = capture.tail_data[&stream];
    data.resize(stream.capture_tail.size());
    *info.data = data.data();
  }
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                             size_t count, unsigned flags) {
  CaptureCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  Stream& stream = *call.stream;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Capture& capture = *stream.capture;
  if (capture.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphEdge> edges;
  if (CUresult bad = read_dependencies(call.driver, *capture.graph, nodes, data, count,
                                       CU_GRAPH_NODE_TYPE_KERNEL, &edges)) {
    return bad;
  }
  auto& tail = stream.capture_tail;
  auto& tail_data = capture.tail_data[&stream];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    tail.clear();
    tail_data.clear();
  }
  tail_data.resize(tail.size());
  for (const GraphEdge& edge : edges) {
    if (std::find(tail.begin(), tail.end(), handle_of(edge.node)) != tail.end()) continue;
    tail.push_back(handle_of(edge.node));
    tail_data.push_back(edge.data);
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, mode);
}
SIMGPU_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return begin(per_thread(stream), mode);
}
SIMGPU_EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
  return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
SIMGPU_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return begin(per_thread(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SIMGPU_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                   const CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* data, size_t count,
                                                   CUstreamCaptureMode mode) {
  return begin_to_graph(stream, graph, dependencies, data, count, mode);
}
SIMGPU_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                        const CUgraphNode* dependencies,
                                                        const CUgraphEdgeData* data, size_t count,
                                                        CUstreamCaptureMode mode) {
  return begin_to_graph(per_thread(stream), graph, dependencies, data, count, mode);
}

SIMGPU_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return end(stream, graph);
}
SIMGPU_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return end(per_thread(stream), graph);
}

SIMGPU_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  Info info;
  info.status = status;
  return get_info(stream, info);
}
SIMGPU_EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(per_thread(stream), status);
}

SIMGPU_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                              cuuint64_t* id) {
  return get_info(stream, {status, id, nullptr, nullptr, nullptr, nullptr});
}
SIMGPU_EXPORT CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus* status,
                                                   cuuint64_t* id) {
  return cuStreamGetCaptureInfo(per_thread(stream), status, id);
}
SIMGPU_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                                 cuuint64_t* id, CUgraph* graph,
                                                 const CUgraphNode** nodes, size_t* count) {
  return get_info(stream, {status, id, graph, nodes, nullptr, count});
}
SIMGPU_EXPORT CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream,
                                                      CUstreamCaptureStatus* status, cuuint64_t* id,
                                                      CUgraph* graph, const CUgraphNode** nodes,
                                                      size_t* count) {
  return cuStreamGetCaptureInfo_v2(per_thread(stream), status, id, graph, nodes, count);
}
SIMGPU_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status,
                                                 cuuint64_t* id, CUgraph* graph,
                                                 const CUgraphNode** nodes,
                                                 const CUgraphEdgeData** data, size_t* count) {
  return get_info(stream, {status, id, graph, nodes, data, count});
}
SIMGPU_EXPORT CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream,
                                                      CUstreamCaptureStatus* status, cuuint64_t* id,
                                                      CUgraph* graph, const CUgraphNode** nodes,
                                                      const CUgraphEdgeData** data, size_t* count) {
  return cuStreamGetCaptureInfo_v3(per_thread(stream), status, id, graph, nodes, data, count);
}

SIMGPU_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes,
                                                         size_t count, unsigned int flags) {
  return update_dependencies(stream, nodes, nullptr, count, flags);
}
SIMGPU_EXPORT CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode* nodes,
                                                              size_t count, unsigned int flags) {
  return update_dependencies(per_thread(stream), nodes, nullptr, count, flags);
}
SIMGPU_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                                            const CUgraphEdgeData* data,
                                                            size_t count, unsigned int flags) {
  return update_dependencies(stream, nodes, data, count, flags);
}
SIMGPU_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream,
                                                                 CUgraphNode* nodes,
                                                                 const CUgraphEdgeData* data,
                                                                 size_t count, unsigned int flags) {
  return update_dependencies(per_thread(stream), nodes, data, count, flags);
}

SIMGPU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The real driver keeps a number that is no mode, too; such a thread is forbidden nothing.
  std::swap(*mode, thread_capture_mode());
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
