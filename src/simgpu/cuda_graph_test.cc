// Graphs through the C interface. Error codes are those that a driver of release 580 gave on an
// H200 for the same calls.
#include <atomic>
#include <thread>

#include "simgpu/graph_fixture.h"

namespace divvy::simgpu {
namespace {

class CudaGraph : public GraphFixture {};

TEST_F(CudaGraph, NodesRunBehindWhatTheyDependOn) {
  // Made in an order that is not the order of the edges.
  const CUgraphNode last = add_carry(graph_, 2, 1);
  const CUgraphNode middle = add_carry(graph_, 1, 0);
  const CUgraphNode first = add_store(graph_, 0, 77);
  const CUgraphNode from[] = {middle, first};
  const CUgraphNode to[] = {last, middle};
  ASSERT_EQ(cuGraphAddDependencies(graph_, from, to, 2), CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(2), 77u);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(CudaGraph, EveryKindOfNodeRuns) {
  const CUgraphNode start = add_store(graph_, 0, 5);
  CUDA_MEMSET_NODE_PARAMS memset{word(1), 0, 6, 4, 1, 1};
  CUgraphNode set = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&set, graph_, &start, 1, &memset, context_), CUDA_SUCCESS);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = word(1);
  copy.dstDevice = word(2);
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode copied = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&copied, graph_, &set, 1, &copy, context_), CUDA_SUCCESS);
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = word(3);
  write.writeValue.value = 9;
  CUDA_BATCH_MEM_OP_NODE_PARAMS memops{context_, 1, &write, 0};
  CUgraphNode written = nullptr;
  ASSERT_EQ(cuGraphAddBatchMemOpNode(&written, graph_, &copied, 1, &memops), CUDA_SUCCESS);
  std::atomic<int> calls{0};
  CUDA_HOST_NODE_PARAMS host{[](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls};
  CUgraphNode called = nullptr;
  ASSERT_EQ(cuGraphAddHostNode(&called, graph_, &written, 1, &host), CUDA_SUCCESS);
  CUgraph child = nullptr;
  ASSERT_EQ(cuGraphCreate(&child, 0), CUDA_SUCCESS);
  const CUgraphNode inner = add_store(child, 4, 10);
  add_carry(child, 5, 4, {inner});
  CUgraphNode nested = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&nested, graph_, &called, 1, child), CUDA_SUCCESS);
  add_carry(graph_, 6, 5, {nested});
  ASSERT_EQ(cuGraphDestroy(child), CUDA_SUCCESS);

  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 5u);
  EXPECT_EQ(read(2), 6u);
  EXPECT_EQ(read(3), 9u);
  EXPECT_EQ(read(6), 10u);
  EXPECT_EQ(calls.load(), 1);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(CudaGraph, BranchThatWaitsDoesNotBlockTheBranchThatWrites) {
  CUstreamBatchMemOpParams wait{};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = word(0);
  wait.waitValue.value = 3;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS memops{context_, 1, &wait, 0};
  CUgraphNode waited = nullptr;
  ASSERT_EQ(cuGraphAddBatchMemOpNode(&waited, graph_, nullptr, 0, &memops), CUDA_SUCCESS);
  add_store(graph_, 1, 8, {waited});
  const CUgraphNode before = add_store(graph_, 2, 1);
  add_store(graph_, 0, 3, {before});
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(1), 8u);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaGraph, EventNodesRecordAndWaitInTheOrderOfLaunches) {
  const CUevent event = new_event();
  const CUgraphNode stored = add_store(graph_, 0, 4);
  CUgraphNode recorded = nullptr;
  ASSERT_EQ(cuGraphAddEventRecordNode(&recorded, graph_, &stored, 1, event), CUDA_SUCCESS);
  CUgraph waiting = nullptr;
  ASSERT_EQ(cuGraphCreate(&waiting, 0), CUDA_SUCCESS);
  CUgraphNode waited = nullptr;
  ASSERT_EQ(cuGraphAddEventWaitNode(&waited, waiting, nullptr, 0, event), CUDA_SUCCESS);
  add_carry(waiting, 1, 0, {waited});
  const CUgraphExec records = instantiate(graph_);
  const CUgraphExec waits = instantiate(waiting);
  ASSERT_EQ(cuGraphLaunch(records, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(waits, other_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(read(1), 4u);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  // The event outlives its handle while the executables can still be launched.
  ASSERT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(records, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(waits, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  cuGraphExecDestroy(records);
  cuGraphExecDestroy(waits);
  cuGraphDestroy(waiting);
}

TEST_F(CudaGraph, LaunchesOfOneExecutableInTwoStreamsFollowEachOther) {
  uint64_t ns = 2'000'000;
  void* params[] = {&ns};
  const CUgraphNode slow = add_kernel(graph_, shape(spin_, params), {});
  const CUgraphNode taken = add_carry(graph_, 1, 0, {slow});
  add_store(graph_, 0, 6, {taken});
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, other_), CUDA_SUCCESS);
  // Side by side both would have read word 0 before either wrote it.
  EXPECT_EQ(read(1), 6u);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaGraph, QueuedLaunchesOutliveTheirExecutableAndGraph) {
  add_store(graph_, 0, 3);
  const CUgraphExec exec = instantiate(graph_);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(read(0), 3u);
}

TEST_F(CudaGraph, ListsFollowTheCountConvention) {
  const CUgraphNode a = add_store(graph_, 0, 1);
  const CUgraphNode b = add_store(graph_, 0, 1, {a});
  const CUgraphNode c = add_store(graph_, 0, 1, {a, b});
  EXPECT_EQ(node_count(graph_), 3u);
  CUgraphNode nodes[5] = {c, c, c, c, c};
  size_t count = 5;
  ASSERT_EQ(cuGraphGetNodes(graph_, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(nodes[0], a);
  EXPECT_EQ(nodes[3], nullptr);
  count = 2;
  nodes[2] = a;
  ASSERT_EQ(cuGraphGetNodes(graph_, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(nodes[2], a);
  count = 5;
  ASSERT_EQ(cuGraphGetRootNodes(graph_, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
  CUgraphNode from[4];
  CUgraphNode to[4];
  count = 4;
  ASSERT_EQ(cuGraphGetEdges(graph_, from, to, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(cuGraphGetEdges(graph_, from, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphNodeGetDependencies(c, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  ASSERT_EQ(cuGraphNodeGetDependentNodes(a, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(cuGraphGetNodes(graph_, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaGraph, EdgeDataIsShownOnlyByTheSecondVersions) {
  const CUgraphNode a = add_store(graph_, 0, 1);
  const CUgraphNode b = add_store(graph_, 0, 1);
  CUgraphEdgeData data{};
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  ASSERT_EQ(cuGraphAddDependencies_v2(graph_, &a, &b, &data, 1), CUDA_SUCCESS);
  CUgraphNode from;
  CUgraphNode to;
  size_t count = 1;
  EXPECT_EQ(cuGraphGetEdges(graph_, &from, &to, &count), CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData shown{};
  ASSERT_EQ(cuGraphGetEdges_v2(graph_, &from, &to, &shown, &count), CUDA_SUCCESS);
  EXPECT_EQ(shown.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  data.type = 9;
  EXPECT_EQ(cuGraphAddDependencies_v2(graph_, &b, &a, &data, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphRemoveDependencies(graph_, &a, &b, 1), CUDA_SUCCESS);
}

TEST_F(CudaGraph, WrongEdgesAreRefused) {
  const CUgraphNode a = add_empty(graph_);
  const CUgraphNode b = add_empty(graph_, {a});
  CUgraph foreign_graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&foreign_graph, 0), CUDA_SUCCESS);
  const CUgraphNode foreign = add_empty(foreign_graph);
  CUgraphNode out = nullptr;
  EXPECT_EQ(cuGraphAddDependencies(graph_, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddDependencies(graph_, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddDependencies(graph_, &a, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddDependencies(graph_, nullptr, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphRemoveDependencies(graph_, &b, &a, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddEmptyNode(&out, graph_, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
  const CUgraphNode twice[] = {a, a};
  EXPECT_EQ(cuGraphAddEmptyNode(&out, graph_, twice, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddEmptyNode(&out, graph_, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(node_count(graph_), 2u);
  cuGraphDestroy(foreign_graph);
}

TEST_F(CudaGraph, CircleIsRefusedWhenInstantiated) {
  const CUgraphNode a = add_empty(graph_);
  const CUgraphNode b = add_empty(graph_, {a});
  ASSERT_EQ(cuGraphAddDependencies(graph_, &b, &a, 1), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph_, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  EXPECT_NE(params.hErrNode_out, nullptr);
}

TEST_F(CudaGraph, DestroyedNodesTakeTheirEdgesAlong) {
  const CUgraphNode a = add_empty(graph_);
  const CUgraphNode b = add_empty(graph_, {a});
  add_empty(graph_, {b});
  ASSERT_EQ(cuGraphDestroyNode(b), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroyNode(b), CUDA_ERROR_INVALID_VALUE);
  size_t edges = 9;
  ASSERT_EQ(cuGraphGetEdges(graph_, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, 0u);
}

TEST_F(CudaGraph, CloneIsIndependentAndKnowsItsOriginals) {
  const CUgraphNode a = add_store(graph_, 0, 1);
  const CUgraphNode b = add_store(graph_, 1, 2, {a});
  CUgraph clone = nullptr;
  ASSERT_EQ(cuGraphClone(&clone, graph_), CUDA_SUCCESS);
  CUgraphNode found = nullptr;
  ASSERT_EQ(cuGraphNodeFindInClone(&found, b, clone), CUDA_SUCCESS);
  EXPECT_NE(found, b);
  size_t count = 0;
  ASSERT_EQ(cuGraphNodeGetDependencies(found, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(cuGraphNodeFindInClone(&found, b, graph_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphDestroyNode(a), CUDA_SUCCESS);
  EXPECT_EQ(node_count(clone), 2u);
  cuGraphDestroy(clone);
}

TEST_F(CudaGraph, ChildGraphBelongsToItsNode) {
  CUgraph child = nullptr;
  ASSERT_EQ(cuGraphCreate(&child, 0), CUDA_SUCCESS);
  add_empty(child);
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&node, graph_, nullptr, 0, child), CUDA_SUCCESS);
  CUgraph embedded = nullptr;
  ASSERT_EQ(cuGraphChildGraphNodeGetGraph(node, &embedded), CUDA_SUCCESS);
  EXPECT_NE(embedded, child);
  EXPECT_EQ(cuGraphDestroy(embedded), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams moving{};
  moving.type = CU_GRAPH_NODE_TYPE_GRAPH;
  moving.graph.graph = child;
  moving.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  ASSERT_EQ(cuGraphAddNode(&node, graph_, nullptr, 0, &moving), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaGraph, KernelParametersCanBeReadAndChanged) {
  const CUgraphNode node = add_store(graph_, 0, 1);
  CUDA_KERNEL_NODE_PARAMS params{};
  ASSERT_EQ(cuGraphKernelNodeGetParams_v2(node, &params), CUDA_SUCCESS);
  EXPECT_EQ(params.func, store_);
  EXPECT_EQ(params.ctx, context_);
  ASSERT_NE(params.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<uint32_t*>(params.kernelParams[1]), 1u);
  CUdeviceptr address = word(0);
  uint32_t value = 2;
  void* changed[] = {&address, &value};
  CUDA_KERNEL_NODE_PARAMS next = shape(store_, changed);
  ASSERT_EQ(cuGraphKernelNodeSetParams_v2(node, &next), CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 2u);
  // What an executable does changes only through the executable.
  value = 3;
  ASSERT_EQ(cuGraphKernelNodeSetParams_v2(node, &next), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 2u);
  value = 4;
  ASSERT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, node, &next), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 4u);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaGraph, WrongParametersAreRefused) {
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph_, nullptr, 0, &kernel), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph_, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  kernel = shape(empty_, nullptr);
  kernel.gridDimX = 0;
  EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph_, nullptr, 0, &kernel), CUDA_ERROR_INVALID_VALUE);
  kernel = shape(store_, nullptr);
  EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph_, nullptr, 0, &kernel), CUDA_ERROR_INVALID_VALUE);
  CUDA_HOST_NODE_PARAMS host{};
  EXPECT_EQ(cuGraphAddHostNode(&node, graph_, nullptr, 0, &host), CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMSET_NODE_PARAMS memset{words_, 0, 1, 3, 1, 1};
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &memset, context_),
            CUDA_ERROR_INVALID_VALUE);
  memset.elementSize = 4;
  memset.dst = 0x10;
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &memset, context_),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D copy{};
  EXPECT_EQ(cuGraphAddMemcpyNode(&node, graph_, nullptr, 0, &copy, context_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddEventRecordNode(&node, graph_, nullptr, 0, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_BATCH_MEM_OP_NODE_PARAMS memops{};
  EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph_, nullptr, 0, &memops), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams any{};
  any.type = static_cast<CUgraphNodeType>(77);
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, 0, &any), CUDA_ERROR_INVALID_VALUE);
  any.type = CU_GRAPH_NODE_TYPE_EMPTY;
  any.reserved2 = 1;
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, 0, &any), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(node_count(graph_), 0u);
}

TEST_F(CudaGraph, DisabledNodesDoNothing) {
  const CUgraphNode node = add_store(graph_, 0, 5);
  const CUgraphNode empty = add_empty(graph_);
  const CUgraphExec exec = instantiate(graph_);
  unsigned enabled = 9;
  ASSERT_EQ(cuGraphNodeSetEnabled(exec, node, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeGetEnabled(exec, node, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 0u);
  EXPECT_EQ(cuGraphNodeSetEnabled(exec, empty, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 0u);
  ASSERT_EQ(cuGraphNodeSetEnabled(exec, node, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 5u);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaGraph, UpdateTakesParametersOverAndRefusesAnotherShape) {
  const CUgraphNode a = add_store(graph_, 0, 1);
  add_store(graph_, 1, 1, {a});
  const CUgraphExec exec = instantiate(graph_);

  CUgraph next = nullptr;
  ASSERT_EQ(cuGraphCreate(&next, 0), CUDA_SUCCESS);
  const CUgraphNode next_a = add_store(next, 0, 8);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, next, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  const CUgraphNode next_b = add_store(next, 1, 9);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, next, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, next_b);
  ASSERT_EQ(cuGraphAddDependencies(next, &next_a, &next_b, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecUpdate_v2(exec, next, &info), CUDA_SUCCESS);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 8u);
  EXPECT_EQ(read(1), 9u);

  CUgraph typed = nullptr;
  ASSERT_EQ(cuGraphCreate(&typed, 0), CUDA_SUCCESS);
  add_empty(typed, {add_store(typed, 0, 1)});
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, typed, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, nullptr, &info), CUDA_ERROR_INVALID_VALUE);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(next);
  cuGraphDestroy(typed);
}

TEST_F(CudaGraph, NullArgumentsAreRefused) {
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphCreate(&graph_, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroyNode(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiateWithFlags(nullptr, graph_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphLaunch(nullptr, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphUpload(nullptr, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaGraph, ExecutableOfADestroyedContextIsRefusedAndCanBeDestroyed) {
  CUcontext doomed = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&doomed, 0, 1), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS memset{memory, 0, 1, 4, 1, 1};
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &memset, doomed), CUDA_SUCCESS);
  const CUevent event = new_event();
  ASSERT_EQ(cuGraphAddEventRecordNode(&node, graph_, &node, 1, event), CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph_);
  const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(CudaGraph, StructureNeedsNoCurrentContext) {
  CUcontext current = nullptr;
  ASSERT_EQ(cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  add_empty(graph);
  const CUgraphExec exec = instantiate(graph);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent_v2(current), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CudaGraph, IndependentKernelsRunSideBySide) {
  // Thirty-two narrow kernels of a millisecond each take one millisecond together. The times are
  // simulated, so they are exact.
  uint64_t ns = 1'000'000;
  void* params[] = {&ns};
  CUevent start = nullptr;
  CUevent stop = nullptr;
  ASSERT_EQ(cuEventCreate(&start, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&stop, 0), CUDA_SUCCESS);
  CUgraphNode begun = nullptr;
  ASSERT_EQ(cuGraphAddEventRecordNode(&begun, graph_, nullptr, 0, start), CUDA_SUCCESS);
  std::vector<CUgraphNode> kernels;
  kernels.reserve(32);
  for (int i = 0; i < 32; ++i) {
    kernels.push_back(add_kernel(graph_, shape(spin_, params), {begun}));
  }
  CUgraphNode ended = nullptr;
  ASSERT_EQ(cuGraphAddEventRecordNode(&ended, graph_, kernels.data(), kernels.size(), stop),
            CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  float milliseconds = 0;
  ASSERT_EQ(cuEventElapsedTime_v2(&milliseconds, start, stop), CUDA_SUCCESS);
  EXPECT_NEAR(milliseconds, 1.0, 0.001);
  cuGraphExecDestroy(exec);
}

class CudaGraphMemory : public GraphFixture {
 protected:
  CUgraphNode add_alloc(CUgraph graph, CUdeviceptr* address) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = 1u << 20;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
    *address = params.dptr;
    return node;
  }
};

TEST_F(CudaGraphMemory, GraphsWithMemoryNodesAreTiedDown) {
  CUdeviceptr address = 0;
  const CUgraphNode alloc = add_alloc(graph_, &address);
  CUgraphNode free = nullptr;
  CUgraphNode out = nullptr;
  ASSERT_EQ(cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, address), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddMemFreeNode(&out, graph_, &alloc, 1, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddMemFreeNode(&out, graph_, &alloc, 1, words_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroyNode(alloc), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphRemoveDependencies(graph_, &alloc, &free, 1), CUDA_ERROR_NOT_SUPPORTED);
  CUgraph clone = nullptr;
  EXPECT_EQ(cuGraphClone(&clone, graph_), CUDA_ERROR_NOT_SUPPORTED);
  CUgraph parent = nullptr;
  ASSERT_EQ(cuGraphCreate(&parent, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddChildGraphNode(&out, parent, nullptr, 0, graph_), CUDA_ERROR_NOT_SUPPORTED);
  const CUgraphExec exec = instantiate(graph_);
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&second, graph_, 0), CUDA_SUCCESS);
  cuGraphExecDestroy(second);
  cuGraphDestroy(parent);
}

TEST_F(CudaGraphMemory, LaunchIsRefusedUntilWhatTheLastLeftIsFreed) {
  CUdeviceptr address = 0;
  add_alloc(graph_, &address);
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(address, 7, 16, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemFreeAsync(address, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  // The memory outlives both the executable and the graph.
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaGraphMemory, AutoFreeAllowsTheNextLaunch) {
  CUdeviceptr address = 0;
  add_alloc(graph_, &address);
  const CUgraphExec exec = instantiate(graph_, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_SUCCESS);
  cuGraphExecDestroy(exec);
}

TEST_F(CudaGraphMemory, OneGraphFreesWhatAnotherAllocated) {
  CUdeviceptr address = 0;
  add_alloc(graph_, &address);
  const CUgraphExec allocates = instantiate(graph_);
  CUgraph freeing = nullptr;
  ASSERT_EQ(cuGraphCreate(&freeing, 0), CUDA_SUCCESS);
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemFreeNode(&node, freeing, nullptr, 0, address), CUDA_SUCCESS);
  const CUgraphExec frees = instantiate(freeing);
  EXPECT_EQ(cuGraphLaunch(frees, stream_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphLaunch(allocates, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(frees, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(frees, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphLaunch(allocates, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(frees, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  cuGraphExecDestroy(allocates);
  cuGraphExecDestroy(frees);
  cuGraphDestroy(freeing);
}

TEST_F(CudaGraphMemory, NodesWorkOnMemoryThatTheGraphAllocates) {
  CUdeviceptr address = 0;
  const CUgraphNode alloc = add_alloc(graph_, &address);
  CUDA_MEMSET_NODE_PARAMS memset{address, 0, 0x55, 4, 8, 1};
  CUgraphNode set = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&set, graph_, &alloc, 1, &memset, context_), CUDA_SUCCESS);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address;
  copy.dstDevice = word(0);
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode copied = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&copied, graph_, &set, 1, &copy, context_), CUDA_SUCCESS);
  CUgraphNode free = nullptr;
  ASSERT_EQ(cuGraphAddMemFreeNode(&free, graph_, &copied, 1, address), CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph_);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(read(0), 0x55u);
  cuGraphExecDestroy(exec);
}

}  // namespace
}  // namespace divvy::simgpu
