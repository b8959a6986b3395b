// Stream capture: what becomes a graph, and every way to spoil it.

#include <thread>

#include "gpu.h"

namespace divvy::conformance {
namespace {

struct Capture {
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
};

// A stream with some memory, capturing in `mode`.
bool begin(Check& t, Capture& c, CUstreamCaptureMode mode) {
  return load_kernels(t) && t.ok("cuMemAlloc", cu.cuMemAlloc_v2(&c.memory, 4096)) &&
         t.ok("cuStreamCreate", cu.cuStreamCreate(&c.stream, CU_STREAM_NON_BLOCKING)) &&
         t.ok("cuStreamBeginCapture", cu.cuStreamBeginCapture_v2(c.stream, mode));
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cu.cuStreamIsCapturing(stream, &status);
  return status;
}

}  // namespace

CASE(capture, makes_a_graph_and_runs_nothing) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_ACTIVE}, uint64_t{status_of(c.stream)});
  OK(launch_fill(c.memory, 16, 1, c.stream));
  OK(cu.cuMemcpyDtoDAsync_v2(c.memory + 1024, c.memory, 64, c.stream));
  OK(cu.cuMemsetD32Async(c.memory, 2, 16, c.stream));
  OK(cu.cuLaunchHostFunc(c.stream, [](void*) {}, nullptr));
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(c.stream, &graph));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_NONE}, uint64_t{status_of(c.stream)});
  size_t nodes = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  EQUAL(uint64_t{4}, uint64_t{nodes});
  OK(cu.cuMemsetD32_v2(c.memory, 9, 512));
  EQUAL(uint64_t{9}, uint64_t{word_at(c.memory)});
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, c.stream));
  OK(cu.cuStreamSynchronize(c.stream));
  EQUAL(uint64_t{2}, uint64_t{word_at(c.memory)});
  EQUAL(uint64_t{1}, uint64_t{word_at(c.memory + 1024)});
}

CASE(capture, end_without_begin) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CODE(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(stream, &graph));
}

CASE(capture, begin_twice_or_on_the_null_stream) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  t.recorded("begin_twice", cu.cuStreamBeginCapture_v2(c.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUgraph graph = nullptr;
  t.recorded("end_after_begin_twice", cu.cuStreamEndCapture(c.stream, &graph));
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       cu.cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       cu.cuStreamBeginCapture_v2(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuStreamBeginCapture_v2(c.stream, static_cast<CUstreamCaptureMode>(9)));
  OK(cu.cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
}

CASE(capture, synchronizing_spoils_it) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(c.stream));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_INVALIDATED}, uint64_t{status_of(c.stream)});
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch_fill(c.memory, 16, 1, c.stream));
  CUgraph graph = reinterpret_cast<CUgraph>(uintptr_t{1});
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(c.stream, &graph));
  TRUE_(graph == nullptr);
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_NONE}, uint64_t{status_of(c.stream)});
  OK(cu.cuStreamSynchronize(c.stream));
}

CASE(capture, query_spoils_it) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(c.stream));
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, synchronizing_the_context_spoils_it) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize());
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, global_mode_forbids_unsafe_calls_everywhere) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_GLOBAL)) return;
  CUresult elsewhere = CUDA_SUCCESS;
  std::thread([&] {
    CUdeviceptr pointer = 0;
    cu.cuCtxSetCurrent(context);
    elsewhere = cu.cuMemAlloc_v2(&pointer, 4096);
  }).join();
  t.code("allocation in another thread", elsewhere, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUdeviceptr pointer = 0;
  t.recorded("allocation_after_it_was_spoilt", cu.cuMemAlloc_v2(&pointer, 4096));
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(c.stream, &graph));
  OK(cu.cuMemAlloc_v2(&pointer, 4096));
}

CASE(capture, thread_local_mode_forbids_unsafe_calls_in_the_thread) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUresult elsewhere = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    CUdeviceptr pointer = 0;
    cu.cuCtxSetCurrent(context);
    elsewhere = cu.cuMemAlloc_v2(&pointer, 4096);
  }).join();
  t.code("allocation in another thread", elsewhere, CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemAlloc_v2(&pointer, 4096));
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, relaxed_mode_allows_unsafe_calls) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  CUdeviceptr pointer = 0;
  void* host = nullptr;
  OK(cu.cuMemAlloc_v2(&pointer, 4096));
  t.recorded("pinned_allocation", cu.cuMemHostAlloc(&host, 4096, 0));
  t.recorded("memory_info", [] {
    size_t free = 0;
    size_t total = 0;
    return cu.cuMemGetInfo_v2(&free, &total);
  }());
  t.recorded("free", cu.cuMemFree_v2(pointer));
  CUgraph graph = nullptr;
  t.recorded("end", cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, mode_of_the_thread_can_be_exchanged) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_GLOBAL)) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_MODE_GLOBAL}, uint64_t{mode});
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 4096));
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_MODE_RELAXED}, uint64_t{mode});
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, legacy_stream_may_not_be_used) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CODE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch_fill(memory, 16, 1, nullptr));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_INVALIDATED}, uint64_t{status_of(stream)});
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
}

CASE(capture, legacy_stream_is_free_beside_a_non_blocking_capture) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  t.recorded("launch", launch_fill(c.memory, 16, 1, nullptr));
  t.recorded("status", uint64_t{status_of(c.stream)});
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  t.recorded("asking_the_null_stream", cu.cuStreamIsCapturing(nullptr, &status));
  CUgraph graph = nullptr;
  t.recorded("end", cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, forks_must_join) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUstream side = nullptr;
  CUevent event = nullptr;
  OK(cu.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventRecord(event, c.stream));
  OK(cu.cuStreamWaitEvent(side, event, 0));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_ACTIVE}, uint64_t{status_of(side)});
  OK(launch_fill(c.memory, 16, 1, side));
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu.cuStreamEndCapture(c.stream, &graph));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_NONE}, uint64_t{status_of(side)});
}

CASE(capture, joined_forks_are_part_of_the_graph) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUstream side = nullptr;
  CUevent event = nullptr;
  OK(cu.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(launch_fill(c.memory, 16, 1, c.stream));
  OK(cu.cuEventRecord(event, c.stream));
  OK(cu.cuStreamWaitEvent(side, event, 0));
  OK(launch_fill(c.memory + 1024, 16, 2, side));
  OK(cu.cuEventRecord(event, side));
  OK(launch_fill(c.memory + 2048, 16, 3, c.stream));
  OK(cu.cuStreamWaitEvent(c.stream, event, 0));
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(c.stream, &graph));
  size_t nodes = 0;
  size_t edges = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  OK(cu.cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  EQUAL(uint64_t{3}, uint64_t{nodes});
  EQUAL(uint64_t{2}, uint64_t{edges});
}

CASE(capture, end_belongs_to_the_first_stream) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUstream side = nullptr;
  CUevent event = nullptr;
  OK(cu.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventRecord(event, c.stream));
  OK(cu.cuStreamWaitEvent(side, event, 0));
  CUgraph graph = nullptr;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu.cuStreamEndCapture(side, &graph));
}

CASE(capture, waits_for_outside_events_are_refused) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUstream outside = nullptr;
  CUevent event = nullptr;
  OK(cu.cuStreamCreate(&outside, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventRecord(event, outside));
  CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(c.stream, event, 0));
  CUgraph graph = nullptr;
  t.recorded("end", cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, external_event_waits_are_nodes) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamWaitEvent(c.stream, event, CU_EVENT_WAIT_EXTERNAL));
  OK(cu.cuEventRecordWithFlags(event, c.stream, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(c.stream, &graph));
  size_t nodes = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  EQUAL(uint64_t{2}, uint64_t{nodes});
}

CASE(capture, captured_events_cannot_be_asked) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cu.cuEventRecord(event, c.stream));
  CODE(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventQuery(event));
  t.recorded("status_after_query", uint64_t{status_of(c.stream)});
  CUgraph graph = nullptr;
  t.recorded("end", cu.cuStreamEndCapture(c.stream, &graph));
  t.recorded("synchronize_after_the_end", cu.cuEventSynchronize(event));
}

CASE(capture, two_captures_do_not_mix) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  CUstream other = nullptr;
  CUevent event = nullptr;
  OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cu.cuEventRecord(event, other));
  CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, cu.cuStreamWaitEvent(c.stream, event, 0));
  CUgraph graph = nullptr;
  t.recorded("end_of_first", cu.cuStreamEndCapture(c.stream, &graph));
  t.recorded("end_of_second", cu.cuStreamEndCapture(other, &graph));
}

CASE(capture, must_end_in_its_own_thread) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUresult elsewhere = CUDA_SUCCESS;
  CUgraph graph = nullptr;
  std::thread([&] {
    cu.cuCtxSetCurrent(context);
    elsewhere = cu.cuStreamEndCapture(c.stream, &graph);
  }).join();
  t.code("end in another thread", elsewhere, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  t.recorded("end", cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, relaxed_one_may_end_anywhere) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  CUresult elsewhere = CUDA_ERROR_UNKNOWN;
  CUgraph graph = nullptr;
  std::thread([&] {
    cu.cuCtxSetCurrent(context);
    elsewhere = cu.cuStreamEndCapture(c.stream, &graph);
  }).join();
  t.code("end in another thread", elsewhere, CUDA_SUCCESS);
}

CASE(capture, information_about_it) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  OK(launch_fill(c.memory, 16, 1, c.stream));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* tail = nullptr;
  size_t tails = 0;
  OK(cu.cuStreamGetCaptureInfo_v2(c.stream, &status, &id, &graph, &tail, &tails));
  EQUAL(uint64_t{CU_STREAM_CAPTURE_STATUS_ACTIVE}, uint64_t{status});
  TRUE_(id != 0 && graph != nullptr);
  EQUAL(uint64_t{1}, uint64_t{tails});
  OK(cu.cuStreamUpdateCaptureDependencies(c.stream, nullptr, 0,
                                          CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(launch_fill(c.memory, 16, 2, c.stream));
  OK(cu.cuStreamEndCapture(c.stream, &graph));
  size_t roots = 0;
  OK(cu.cuGraphGetRootNodes(graph, nullptr, &roots));
  EQUAL(uint64_t{2}, uint64_t{roots});
}

CASE(capture, into_an_existing_graph) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraph same = nullptr;
  CUgraphNode first = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  OK(cu.cuStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1,
                                    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(launch_fill(memory, 16, 1, stream));
  OK(cu.cuStreamEndCapture(stream, &same));
  TRUE_(same == graph);
  size_t edges = 0;
  OK(cu.cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  EQUAL(uint64_t{1}, uint64_t{edges});
}

CASE(capture, stream_ordered_memory_becomes_nodes) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocAsync(&pointer, kMiB, c.stream));
  OK(launch_fill(pointer, 16, 1, c.stream));
  OK(cu.cuMemFreeAsync(pointer, c.stream));
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(c.stream, &graph));
  size_t nodes = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  EQUAL(uint64_t{3}, uint64_t{nodes});
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, c.stream));
  OK(cu.cuStreamSynchronize(c.stream));
}

CASE(capture, memory_operations_become_nodes) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  OK(cu.cuStreamWriteValue32_v2(c.stream, c.memory, 31, 0));
  OK(cu.cuStreamWaitValue32_v2(c.stream, c.memory, 31, CU_STREAM_WAIT_VALUE_EQ));
  CUgraph graph = nullptr;
  OK(cu.cuStreamEndCapture(c.stream, &graph));
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, c.stream));
  OK(cu.cuStreamSynchronize(c.stream));
  EQUAL(uint64_t{31}, uint64_t{word_at(c.memory)});
}

CASE(capture, graph_launches_inside) {
  Capture c;
  if (!load_kernels(t)) return;
  CUgraph inner = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphCreate(&inner, 0));
  OK(cu.cuGraphAddEmptyNode(&node, inner, nullptr, 0));
  OK(cu.cuGraphInstantiateWithFlags(&exec, inner, 0));
  OK(cu.cuStreamCreate(&c.stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamBeginCapture_v2(c.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  t.recorded("launch", cu.cuGraphLaunch(exec, c.stream));
  CUgraph graph = nullptr;
  const CUresult ended = cu.cuStreamEndCapture(c.stream, &graph);
  t.recorded("end", ended);
  if (ended != CUDA_SUCCESS) return;
  size_t nodes = 1;
  OK(cu.cuGraphGetNodes(graph, &node, &nodes));
  t.recorded("nodes", uint64_t{nodes});
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (nodes == 1) OK(cu.cuGraphNodeGetType(node, &type));
  t.recorded("type", uint64_t{type});
}

CASE(capture, callbacks_are_refused) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       cu.cuStreamAddCallback(c.stream, [](CUstream, CUresult, void*) {}, nullptr, 0));
  CUgraph graph = nullptr;
  t.recorded("end", cu.cuStreamEndCapture(c.stream, &graph));
}

CASE(capture, destroying_the_stream_ends_it) {
  Capture c;
  if (!begin(t, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) return;
  t.recorded("destroy", cu.cuStreamDestroy_v2(c.stream));
  CUdeviceptr pointer = 0;
  t.recorded("allocation_afterwards", cu.cuMemAlloc_v2(&pointer, 4096));
}

}  // namespace divvy::conformance
