// The exported functions that change a node inside an executable graph, named by the node of the
// graph it was made from. The change holds from the next launch on.
#include "simgpu/graph.h"
#include "simgpu/graph_content.h"

namespace divvy::simgpu {
namespace {

// The executable's own copy of a node, or null.
GraphNode* find_in(Driver& driver, GraphExec* exec, CUgraphNode handle) {
  const GraphNode* node = resolve_node(driver, handle);
  if (exec == nullptr || node == nullptr) return nullptr;
  const auto found = exec->by_source.find(node->id);
  return found == exec->by_source.end() ? nullptr : found->second;
}

template <typename Describe>
CUresult set(CUgraphExec exec_handle, CUgraphNode node_handle, CUgraphNodeType type,
             const Describe& describe) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphExec* exec = resolve_exec(call.driver, exec_handle);
  GraphNode* node = find_in(call.driver, exec, node_handle);
  if (node == nullptr || node->content.type != type) return CUDA_ERROR_INVALID_VALUE;
  NodeContent content;
  if (CUresult bad = describe(call, *node, &content)) return bad;
  // A node stays on its GPU.
  if (content.context != nullptr && node->content.context != nullptr &&
      content.context != node->content.context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  set_content(call.driver.graphs(), *node, std::move(content));
  exec->stale = true;
  return CUDA_SUCCESS;
}

CUresult set_child(CUgraphExec exec_handle, CUgraphNode node_handle, CUgraph graph_handle) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphExec* exec = resolve_exec(call.driver, exec_handle);
  GraphNode* node = find_in(call.driver, exec, node_handle);
  const Graph* graph = resolve_graph(call.driver, graph_handle);
  if (node == nullptr || graph == nullptr || node->content.type != CU_GRAPH_NODE_TYPE_GRAPH) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  UpdateComplaint complaint;
  if (!can_update(*node->content.child, *graph, &complaint)) return CUDA_ERROR_INVALID_VALUE;
  apply_update(call.driver.graphs(), *node->content.child, *graph);
  exec->stale = true;
  return CUDA_SUCCESS;
}

bool can_be_disabled(const GraphNode& node) {
  return node.content.type == CU_GRAPH_NODE_TYPE_KERNEL ||
         node.content.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         node.content.type == CU_GRAPH_NODE_TYPE_MEMSET;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_KERNEL,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_kernel(call, params, content);
             });
}
SIMGPU_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                         const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_KERNEL,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_kernel(call, params, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_MEMCPY3D* params,
                                                      CUcontext context) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_copy(call, params, context, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_MEMSET_NODE_PARAMS* params,
                                                      CUcontext context) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_MEMSET,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_memset(call, params, context, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_HOST_NODE_PARAMS* params) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_HOST, [&](Call&, GraphNode&, NodeContent* content) {
    return describe_host(params, content);
  });
}

SIMGPU_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                          CUgraph graph) {
  return set_child(exec, node, graph);
}

SIMGPU_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                          CUevent event) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_record(call, event, content);
             });
}
SIMGPU_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                        CUevent event) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_wait(call, event, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return set(exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_memops(call, params, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                CUgraphNodeParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) return set_child(exec, node, params->graph.graph);
  return set(exec, node, params->type, [&](Call& call, GraphNode& found, NodeContent* content) {
    return describe_any(call, *found.graph, params, true, content);
  });
}

SIMGPU_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec_handle, CUgraphNode node_handle,
                                             unsigned int enabled) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphExec* exec = resolve_exec(call.driver, exec_handle);
  GraphNode* node = find_in(call.driver, exec, node_handle);
  if (node == nullptr || !can_be_disabled(*node)) return CUDA_ERROR_INVALID_VALUE;
  node->enabled = enabled != 0;
  exec->stale = true;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec_handle, CUgraphNode node_handle,
                                             unsigned int* enabled) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphExec* exec = resolve_exec(call.driver, exec_handle);
  const GraphNode* node = find_in(call.driver, exec, node_handle);
  if (node == nullptr || enabled == nullptr || !can_be_disabled(*node)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *enabled = node->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
