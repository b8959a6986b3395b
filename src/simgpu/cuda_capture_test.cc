// Stream capture through the C interface. Error codes and what becomes of the capture are those
// that a driver of release 580 gave on an H200 for the same calls.
#include <atomic>
#include <thread>

#include "simgpu/graph_fixture.h"

namespace divvy::simgpu {
namespace {

constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

class CudaCapture : public GraphFixture {
 protected:
  void begin(CUstream stream, CUstreamCaptureMode mode = kRelaxed) {
    ASSERT_EQ(cuStreamBeginCapture_v2(stream, mode), CUDA_SUCCESS);
  }
  static CUstreamCaptureStatus status(CUstream stream) {
    auto status = static_cast<CUstreamCaptureStatus>(9);
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status;
  }
  // The graph that the capture ended with; null when it did not end with `expected` success.
  static CUgraph end(CUstream stream, CUresult expected = CUDA_SUCCESS) {
    auto graph = reinterpret_cast<CUgraph>(uintptr_t{0x77});
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), expected);
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    if (expected != CUDA_SUCCESS) {
      EXPECT_EQ(graph, nullptr);
    }
    return graph;
  }
  void expect_invalidated(CUstream stream) {
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  // Another thread, with the same context.
  template <typename Body>
  void elsewhere(const Body& body) {
    std::thread([&] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      body();
    }).join();
  }
  static CUresult allocate() {
    CUdeviceptr address = 0;
    const CUresult result = cuMemAlloc_v2(&address, 4096);
    if (result == CUDA_SUCCESS) cuMemFree_v2(address);
    return result;
  }
};

TEST_F(CudaCapture, CapturedWorkRunsOnlyWhenLaunched) {
  begin(stream_);
  ASSERT_EQ(launch_store(stream_, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(word(1), 2, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync_v2(word(2), word(1), 4, stream_), CUDA_SUCCESS);
  std::atomic<int> calls{0};
  ASSERT_EQ(cuLaunchHostFunc(
                stream_, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32_v2(stream_, word(3), 4, 0), CUDA_SUCCESS);
  const CUgraph graph = end(stream_);
  EXPECT_EQ(read(0), 0u);
  EXPECT_EQ(calls.load(), 0);

  size_t count = 8;
  CUgraphNode nodes[8];
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  const CUgraphNodeType expected[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMSET,
                                      CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_HOST,
                                      CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
  ASSERT_EQ(count, std::size(expected));
  for (size_t i = 0; i < count; ++i) {
    CUgraphNodeType type;
    ASSERT_EQ(cuGraphNodeGetType(nodes[i], &type), CUDA_SUCCESS);
    EXPECT_EQ(type, expected[i]);
  }
  const CUgraphExec exec = instantiate(graph);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 1u);
  EXPECT_EQ(read(2), 2u);
  EXPECT_EQ(read(3), 4u);
  EXPECT_EQ(calls.load(), 3);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
}

TEST_F(CudaCapture, ForkedStreamJoinsThroughEvents) {
  const CUevent fork = new_event();
  const CUevent join = new_event();
  begin(stream_);
  ASSERT_EQ(launch_store(stream_, 0, 5), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(fork, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, fork, 0), CUDA_SUCCESS);
  EXPECT_EQ(status(other_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(launch_store(other_, 1, 6), CUDA_SUCCESS);
  ASSERT_EQ(launch_store(stream_, 2, 7), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(join, other_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream_, join, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch_store(stream_, 3, 8), CUDA_SUCCESS);
  const CUgraph graph = end(stream_);
  EXPECT_EQ(status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
  size_t edges = 0;
  ASSERT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, 4u);
  const CUgraphExec exec = instantiate(graph);
  ASSERT_EQ(cuGraphLaunch(exec, other_), CUDA_SUCCESS);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read(i), 5u + static_cast<unsigned>(i));
  // What was recorded in a capture that is over has no completion.
  EXPECT_EQ(cuEventQuery(fork), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitEvent(other_, fork, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuEventRecord(fork, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(fork), CUDA_SUCCESS);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
}

TEST_F(CudaCapture, BeginAndEndHaveTheirRules) {
  EXPECT_EQ(cuStreamBeginCapture_v2(nullptr, kGlobal), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamBeginCapture_v2(stream_, static_cast<CUstreamCaptureMode>(9)),
            CUDA_ERROR_INVALID_VALUE);
  end(stream_, CUDA_ERROR_ILLEGAL_STATE);
  begin(stream_);
  EXPECT_EQ(cuStreamBeginCapture_v2(stream_, kRelaxed), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(cuStreamEndCapture(stream_, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(status(stream_), CU_STREAM_CAPTURE_STATUS_NONE);
  begin(CU_STREAM_PER_THREAD);
  EXPECT_EQ(launch_empty(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  cuGraphDestroy(end(CU_STREAM_PER_THREAD));
}

TEST_F(CudaCapture, OnlyTheOriginCanEndIt) {
  const CUevent event = new_event();
  begin(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBeginCapture_v2(other_, kRelaxed), CUDA_ERROR_ILLEGAL_STATE);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(other_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(status(other_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  expect_invalidated(stream_);
  EXPECT_EQ(status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CudaCapture, UnjoinedForkFailsTheEnd) {
  const CUevent event = new_event();
  begin(stream_);
  ASSERT_EQ(launch_empty(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch_empty(other_), CUDA_SUCCESS);
  end(stream_, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(launch_empty(other_), CUDA_SUCCESS);

  // A fork that captured nothing leaves nothing to join.
  begin(stream_);
  ASSERT_EQ(launch_empty(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event, 0), CUDA_SUCCESS);
  cuGraphDestroy(end(stream_));

  // Destroying the forked stream does not join what it captured.
  const CUstream gone = new_stream(CU_STREAM_NON_BLOCKING);
  begin(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(gone, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch_empty(gone), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy_v2(gone), CUDA_SUCCESS);
  end(stream_, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_F(CudaCapture, AnotherThreadEndsOnlyRelaxedCaptures) {
  for (const auto mode : {kGlobal, kThreadLocal}) {
    begin(stream_, mode);
    elsewhere([&] {
      EXPECT_EQ(launch_empty(stream_), CUDA_SUCCESS);
      end(stream_, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    });
  }
  begin(stream_, kRelaxed);
  elsewhere([&] { cuGraphDestroy(end(stream_)); });
}

TEST_F(CudaCapture, WaitingForAnEventFromOutsideIsIsolation) {
  const CUevent event = new_event();
  begin(stream_);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_SUCCESS);  // never recorded: nothing to do
  cuGraphDestroy(end(stream_));
  ASSERT_EQ(cuEventRecord(event, other_), CUDA_SUCCESS);
  begin(stream_);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_invalidated(stream_);
}

TEST_F(CudaCapture, TwoCapturesDoNotMerge) {
  const CUevent event = new_event();
  begin(stream_);
  begin(other_);
  ASSERT_EQ(launch_empty(other_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  expect_invalidated(stream_);
  expect_invalidated(other_);
}

TEST_F(CudaCapture, LookingAtCompletionInvalidates) {
  begin(stream_);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(launch_empty(stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  expect_invalidated(stream_);
  begin(stream_);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  const CUevent event = new_event();
  begin(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  expect_invalidated(stream_);
  begin(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
  expect_invalidated(stream_);
}

TEST_F(CudaCapture, LegacyStreamIsInTheWayOfBlockingStreamsOnly) {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  begin(blocking);
  CUstreamCaptureStatus asked;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &asked), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(launch_empty(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  expect_invalidated(blocking);
  begin(stream_);
  EXPECT_EQ(launch_empty(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(launch_empty(other_), CUDA_SUCCESS);
  EXPECT_EQ(status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  cuGraphDestroy(end(stream_));
}

TEST_F(CudaCapture, ModesForbidUnsafeCallsInTheRightThreads) {
  begin(stream_, kGlobal);
  EXPECT_EQ(allocate(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  begin(stream_, kThreadLocal);
  EXPECT_EQ(allocate(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  begin(stream_, kRelaxed);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
  cuGraphDestroy(end(stream_));

  begin(stream_, kGlobal);
  elsewhere([] { EXPECT_EQ(allocate(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); });
  expect_invalidated(stream_);
  begin(stream_, kThreadLocal);
  elsewhere([] { EXPECT_EQ(allocate(), CUDA_SUCCESS); });
  cuGraphDestroy(end(stream_));
}

TEST_F(CudaCapture, ThreadsChooseTheirOwnMode) {
  begin(stream_, kGlobal);
  elsewhere([] {
    CUstreamCaptureMode mode = kThreadLocal;
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, kGlobal);
    EXPECT_EQ(allocate(), CUDA_SUCCESS);
  });
  CUstreamCaptureMode mode = kRelaxed;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
  mode = kThreadLocal;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, kRelaxed);
  EXPECT_EQ(allocate(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  mode = kGlobal;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(nullptr), CUDA_ERROR_INVALID_VALUE);
  expect_invalidated(stream_);
}

TEST_F(CudaCapture, InfoShowsGraphAndDependenciesWhichCanBeChanged) {
  CUstreamCaptureStatus state;
  cuuint64_t id = 5;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* data = nullptr;
  size_t count = 9;
  ASSERT_EQ(cuStreamGetCaptureInfo_v3(stream_, &state, &id, &graph, &nodes, &data, &count),
            CUDA_SUCCESS);
  EXPECT_EQ(state, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(id, 5u);
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, nullptr, 0, 1), CUDA_ERROR_ILLEGAL_STATE);

  begin(stream_);
  ASSERT_EQ(launch_empty(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetCaptureInfo_v3(stream_, &state, &id, &graph, &nodes, &data, &count),
            CUDA_SUCCESS);
  EXPECT_EQ(state, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 5u);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_ILLEGAL_STATE);
  CUgraphNode added = add_empty(graph, {nodes[0]});
  ASSERT_EQ(cuStreamUpdateCaptureDependencies(stream_, &added, 1, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamUpdateCaptureDependencies(stream_, &added, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, &added, 1, 7), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuStreamGetCaptureInfo_v2(stream_, &state, &id, &graph, &nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(nodes[0], added);
  EXPECT_EQ(cuStreamGetCaptureInfo_v2(stream_, nullptr, &id, &graph, &nodes, &count),
            CUDA_ERROR_INVALID_VALUE);
  const CUgraph ended = end(stream_);
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(node_count(ended), 2u);
  cuGraphDestroy(ended);
}

TEST_F(CudaCapture, CaptureToGraphAddsBehindTheGivenNodes) {
  const CUgraphNode first = add_store(graph_, 0, 1);
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream_, graph_, &first, nullptr, 1, kRelaxed),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBeginCaptureToGraph(other_, graph_, nullptr, nullptr, 0, kRelaxed),
            CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(launch_store(stream_, 0, 2), CUDA_SUCCESS);
  EXPECT_EQ(end(stream_), graph_);
  EXPECT_EQ(node_count(graph_), 2u);
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 2u);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaCapture, MemoryAllocatedInACaptureBelongsToTheGraph) {
  CUdeviceptr address = 0;
  begin(stream_);
  ASSERT_EQ(cuMemAllocAsync(&address, 4096, stream_), CUDA_SUCCESS);
  ASSERT_NE(address, 0u);
  ASSERT_EQ(cuMemsetD32Async(address, 0x66, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync_v2(word(0), address, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(address, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_ERROR_INVALID_VALUE);
  const CUgraph graph = end(stream_);
  const CUgraphExec exec = instantiate(graph);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 0x66u);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
}

TEST_F(CudaCapture, GraphsCannotBeLaunchedIntoACapture) {
  add_store(graph_, 0, 9);
  const CUgraphExec exec = instantiate(graph_);
  begin(stream_);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  begin(stream_, kGlobal);
  EXPECT_EQ(cuGraphLaunch(exec, other_), CUDA_SUCCESS);
  EXPECT_EQ(status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraphExec another = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&another, graph_, 0),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  EXPECT_EQ(read(0), 9u);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaCapture, ContextDestroyedInTheMiddleEndsTheCapture) {
  CUcontext doomed = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&doomed, 0, 0), CUDA_SUCCESS);
  const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
  begin(stream, kGlobal);
  ASSERT_EQ(cuMemsetD32Async(word(0), 1, 1, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
}

TEST_F(CudaCapture, ExternalEventsBecomeNodes) {
  const CUevent event = new_event();
  begin(stream_);
  ASSERT_EQ(cuEventRecordWithFlags(event, stream_, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream_, event, CU_EVENT_WAIT_EXTERNAL), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  const CUgraph graph = end(stream_);
  EXPECT_EQ(node_count(graph), 2u);
  EXPECT_EQ(cuEventRecordWithFlags(event, stream_, CU_EVENT_RECORD_EXTERNAL),
            CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
  const CUgraphExec exec = instantiate(graph);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
}

TEST_F(CudaCapture, WaitingForOthersIsUnsafeToo) {
  const CUevent event = new_event();
  ASSERT_EQ(cuEventRecord(event, other_), CUDA_SUCCESS);
  begin(stream_, kGlobal);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  begin(stream_, kGlobal);
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
  begin(stream_, kRelaxed);
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated(stream_);
}

}  // namespace
}  // namespace divvy::simgpu
