// Graphs built by hand: nodes of each kind, structure, instantiation, launch and update.

#include <array>
#include <atomic>

#include "gpu.h"

namespace divvy::conformance {
namespace {

// Parameters of a fill32 node; the pointers inside live as long as this does.
struct Fill {
  Fill(CUdeviceptr memory, uint32_t fill_value)
      : to(memory), value(fill_value), pointers{&to, &count, &value} {
    node.func = fill32;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = 32;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = pointers.data();
  }
  uint64_t to;
  uint64_t count = 16;
  uint32_t value;
  std::array<void*, 3> pointers;
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
};

CUDA_MEMSET_NODE_PARAMS set_words(CUdeviceptr memory, uint32_t value) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = memory;
  set.value = value;
  set.elementSize = 4;
  set.width = 16;
  set.height = 1;
  return set;
}

CUDA_MEMCPY3D copy_words(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.WidthInBytes = 64;
  copy.Height = copy.Depth = 1;
  return copy;
}

}  // namespace

CASE(graphs, empty_one_can_be_launched) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuCtxSynchronize());
  OK(cu.cuGraphExecDestroy(exec));
  OK(cu.cuGraphDestroy(graph));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphCreate(nullptr, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphCreate(&graph, 1));
}

CASE(graphs, nodes_run_in_order_of_dependence) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode set = nullptr;
  CUgraphNode fill = nullptr;
  CUgraphNode copy = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  const CUDA_MEMSET_NODE_PARAMS words = set_words(memory, 1);
  OK(cu.cuGraphAddMemsetNode(&set, graph, nullptr, 0, &words, context));
  const CUDA_MEMCPY3D to_second = copy_words(memory + 1024, memory);
  OK(cu.cuGraphAddMemcpyNode(&copy, graph, &set, 1, &to_second, context));
  const Fill two(memory, 2);
  OK(cu.cuGraphAddKernelNode_v2(&fill, graph, &copy, 1, &two.node));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{2}, uint64_t{word_at(memory)});
  EQUAL(uint64_t{1}, uint64_t{word_at(memory + 1024)});
  size_t nodes = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  EQUAL(uint64_t{3}, uint64_t{nodes});
  size_t roots = 0;
  OK(cu.cuGraphGetRootNodes(graph, nullptr, &roots));
  EQUAL(uint64_t{1}, uint64_t{roots});
  size_t edges = 0;
  OK(cu.cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  EQUAL(uint64_t{2}, uint64_t{edges});
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  OK(cu.cuGraphNodeGetType(copy, &type));
  EQUAL(uint64_t{CU_GRAPH_NODE_TYPE_MEMCPY}, uint64_t{type});
}

CASE(graphs, host_nodes_run_on_the_host) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  std::atomic<int> calls{0};
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
  host.userData = &calls;
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddHostNode(&node, graph, nullptr, 0, &host));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuCtxSynchronize());
  EQUAL(uint64_t{2}, static_cast<uint64_t>(calls.load()));
}

CASE(graphs, event_nodes_record_and_wait) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode wait = nullptr;
  CUgraphNode record = nullptr;
  CUevent first = nullptr;
  CUevent second = nullptr;
  CUstream held = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuEventCreate(&first, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventCreate(&second, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, first));
  OK(cu.cuGraphAddEventRecordNode(&record, graph, &wait, 1, second));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  Gate gate(t, held);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(first, held));
  OK(cu.cuGraphLaunch(exec, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuEventQuery(second));
  gate.open();
  OK(cu.cuEventSynchronize(second));
  OK(cu.cuStreamSynchronize(stream));
}

CASE(graphs, child_graphs_are_copies) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph child = nullptr;
  CUgraph parent = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNode inner = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&child, 0));
  OK(cu.cuGraphCreate(&parent, 0));
  const Fill five(memory, 5);
  OK(cu.cuGraphAddKernelNode_v2(&inner, child, nullptr, 0, &five.node));
  OK(cu.cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  OK(cu.cuGraphDestroy(child));
  OK(cu.cuGraphInstantiateWithFlags(&exec, parent, 0));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{5}, uint64_t{word_at(memory)});
}

CASE(graphs, clones_keep_their_nodes) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraph clone = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNode in_clone = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  const Fill six(memory, 6);
  OK(cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &six.node));
  OK(cu.cuGraphClone(&clone, graph));
  OK(cu.cuGraphNodeFindInClone(&in_clone, node, clone));
  TRUE_(in_clone != nullptr && in_clone != node);
  OK(cu.cuGraphDestroy(graph));
  OK(cu.cuGraphInstantiateWithFlags(&exec, clone, 0));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{6}, uint64_t{word_at(memory)});
}

CASE(graphs, instantiation_copies_the_graph) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  const Fill seven(memory, 7);
  OK(cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &seven.node));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  const Fill eight(memory, 8);
  OK(cu.cuGraphKernelNodeSetParams_v2(node, &eight.node));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{7}, uint64_t{word_at(memory)});
  OK(cu.cuGraphDestroy(graph));
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuCtxSynchronize());
}

CASE(graphs, update_changes_parameters) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNode other_node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphCreate(&other, 0));
  const Fill one(memory, 1);
  const Fill two(memory, 2);
  const Fill three(memory, 3);
  OK(cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &one.node));
  OK(cu.cuGraphAddKernelNode_v2(&other_node, other, nullptr, 0, &two.node));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUgraphExecUpdateResultInfo info{};
  OK(cu.cuGraphExecUpdate_v2(exec, other, &info));
  EQUAL(uint64_t{CU_GRAPH_EXEC_UPDATE_SUCCESS}, uint64_t{info.result});
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{2}, uint64_t{word_at(memory)});
  OK(cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &three.node));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{3}, uint64_t{word_at(memory)});
}

CASE(graphs, update_with_another_shape_is_refused) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphCreate(&other, 0));
  const Fill one(memory, 1);
  OK(cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &one.node));
  OK(cu.cuGraphAddKernelNode_v2(&node, other, nullptr, 0, &one.node));
  OK(cu.cuGraphAddKernelNode_v2(&node, other, &node, 1, &one.node));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUgraphExecUpdateResultInfo info{};
  CODE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu.cuGraphExecUpdate_v2(exec, other, &info));
  EQUAL(uint64_t{CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED}, uint64_t{info.result});
  // It still runs as it was.
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{1}, uint64_t{word_at(memory)});
}

CASE(graphs, update_with_another_kind_of_node_is_refused) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphCreate(&other, 0));
  const Fill one(memory, 1);
  const CUDA_MEMSET_NODE_PARAMS words = set_words(memory, 1);
  OK(cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &one.node));
  OK(cu.cuGraphAddMemsetNode(&node, other, nullptr, 0, &words, context));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUgraphExecUpdateResultInfo info{};
  CODE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu.cuGraphExecUpdate_v2(exec, other, &info));
  t.recorded("result", uint64_t{info.result});
}

CASE(graphs, nodes_can_be_disabled) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  unsigned enabled = 9;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemsetD32_v2(memory, 0, 16));
  OK(cu.cuGraphCreate(&graph, 0));
  const Fill one(memory, 1);
  OK(cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &one.node));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphNodeSetEnabled(exec, node, 0));
  OK(cu.cuGraphNodeGetEnabled(exec, node, &enabled));
  EQUAL(uint64_t{0}, uint64_t{enabled});
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{0}, uint64_t{word_at(memory)});
  OK(cu.cuGraphNodeSetEnabled(exec, node, 1));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{1}, uint64_t{word_at(memory)});
}

CASE(graphs, circles_are_refused) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  OK(cu.cuGraphAddEmptyNode(&second, graph, &first, 1));
  t.recorded("closing_the_circle", cu.cuGraphAddDependencies(graph, &second, &first, 1));
  t.recorded("instantiation", cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  t.recorded("dependence_on_itself", cu.cuGraphAddDependencies(graph, &first, &first, 1));
}

CASE(graphs, dependencies_can_be_added_and_removed) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  size_t edges = 99;
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  OK(cu.cuGraphAddEmptyNode(&second, graph, nullptr, 0));
  OK(cu.cuGraphAddDependencies(graph, &first, &second, 1));
  OK(cu.cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  EQUAL(uint64_t{1}, uint64_t{edges});
  t.recorded("the_same_again", cu.cuGraphAddDependencies(graph, &first, &second, 1));
  OK(cu.cuGraphRemoveDependencies(graph, &first, &second, 1));
  OK(cu.cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  EQUAL(uint64_t{0}, uint64_t{edges});
  OK(cu.cuGraphDestroyNode(second));
  size_t nodes = 0;
  OK(cu.cuGraphGetNodes(graph, nullptr, &nodes));
  EQUAL(uint64_t{1}, uint64_t{nodes});
}

CASE(graphs, memory_nodes_allocate_at_launch) {
  if (!load_kernels(t)) return;
  CUgraph graph = nullptr;
  CUgraphNode alloc = nullptr;
  CUgraphNode fill = nullptr;
  CUgraphNode copy = nullptr;
  CUgraphNode release = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr result = 0;
  OK(cu.cuMemAlloc_v2(&result, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  parameters.bytesize = 32 * kMiB;
  OK(cu.cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &parameters));
  TRUE_(parameters.dptr != 0);
  const Fill nine(parameters.dptr, 9);
  OK(cu.cuGraphAddKernelNode_v2(&fill, graph, &alloc, 1, &nine.node));
  const CUDA_MEMCPY3D out = copy_words(result, parameters.dptr);
  OK(cu.cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &out, context));
  OK(cu.cuGraphAddMemFreeNode(&release, graph, &copy, 1, parameters.dptr));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{9}, uint64_t{word_at(result)});
  cuuint64_t used = 99;
  OK(cu.cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  t.recorded("used_after", uint64_t{used});
  cuuint64_t reserved = 0;
  OK(cu.cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
  TRUE_(reserved >= 32 * kMiB);
  OK(cu.cuGraphExecDestroy(exec));
  OK(cu.cuGraphDestroy(graph));
  OK(cu.cuDeviceGraphMemTrim(device));
  OK(cu.cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EQUAL(uint64_t{0}, uint64_t{reserved});
}

CASE(graphs, memory_left_by_a_graph_is_freed_outside) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphNode alloc = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  parameters.bytesize = 32 * kMiB;
  OK(cu.cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &parameters));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  const uint64_t before = free_bytes();
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuCtxSynchronize());
  TRUE_(free_bytes() + 32 * kMiB <= before);
  OK(cu.cuMemsetD32_v2(parameters.dptr, 3, 16));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuMemFreeAsync(parameters.dptr, nullptr));
  OK(cu.cuCtxSynchronize());
  OK(cu.cuGraphLaunch(exec, nullptr));
  OK(cu.cuMemFree_v2(parameters.dptr));
  CUgraphExec second = nullptr;
  t.recorded("second_instantiation", cu.cuGraphInstantiateWithFlags(&second, graph, 0));
  CUgraph clone = nullptr;
  t.recorded("clone", cu.cuGraphClone(&clone, graph));
}

CASE(graphs, memory_operation_nodes) {
  if (!start_gpu(t)) return;
  void* host = nullptr;
  OK(cu.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  auto* words = static_cast<volatile uint32_t*>(host);
  words[0] = 0;
  words[1] = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(host);
  std::array<CUstreamBatchMemOpParams, 2> ops{};
  ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[0].waitValue.address = address;
  ops[0].waitValue.value = 1;
  ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[1].writeValue.address = address + 4;
  ops[1].writeValue.value = 5;
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters{};
  parameters.ctx = context;
  parameters.count = 2;
  parameters.paramArray = ops.data();
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &parameters));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphLaunch(exec, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  store(&words[0], 1);
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{5}, uint64_t{words[1]});
}

CASE(graphs, general_nodes) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  const Fill four(memory, 4);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
  parameters.kernel.func = fill32;
  parameters.kernel.gridDimX = parameters.kernel.gridDimY = parameters.kernel.gridDimZ = 1;
  parameters.kernel.blockDimX = 32;
  parameters.kernel.blockDimY = parameters.kernel.blockDimZ = 1;
  parameters.kernel.kernelParams = four.node.kernelParams;
  OK(cu.cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &parameters));
  CUDA_GRAPH_INSTANTIATE_PARAMS instantiate{};
  OK(cu.cuGraphInstantiateWithParams(&exec, graph, &instantiate));
  EQUAL(uint64_t{CUDA_GRAPH_INSTANTIATE_SUCCESS}, uint64_t{instantiate.result_out});
  OK(cu.cuGraphUpload(exec, nullptr));
  OK(cu.cuGraphLaunch(exec, nullptr));
  EQUAL(uint64_t{4}, uint64_t{word_at(memory)});
}

CASE(graphs, two_launches_of_one_never_overlap) {
  if (!start_gpu(t)) return;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUstream first = nullptr;
  CUstream second = nullptr;
  OK(cu.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cu.cuGraphCreate(&graph, 0));
  OK(cu.cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  Gate gate(t, first);
  if (!gate.works()) return;
  OK(cu.cuGraphLaunch(exec, first));
  OK(cu.cuGraphLaunch(exec, second));
  t.recorded("second_while_the_first_is_held_back", cu.cuStreamQuery(second));
  gate.open();
  OK(cu.cuStreamSynchronize(second));
  OK(cu.cuStreamSynchronize(first));
}

CASE(graphs, wrong_nodes_are_refused) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuGraphCreate(&graph, 0));
  Fill bad(memory, 1);
  bad.node.blockDimX = 2048;
  t.recorded("block_too_large", cu.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &bad.node));
  CUDA_MEMSET_NODE_PARAMS words = set_words(memory, 1);
  words.elementSize = 3;
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuGraphAddMemsetNode(&node, graph, nullptr, 0, &words, context));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddHostNode(&node, graph, nullptr, 0, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddKernelNode_v2(nullptr, graph, nullptr, 0, &bad.node));
  t.recorded("launch_of_null", cu.cuGraphLaunch(nullptr, nullptr));
}

}  // namespace divvy::conformance
