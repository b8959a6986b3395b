// The exported functions that add nodes to a graph, one for each kind of node and one for any.
#include "simgpu/graph.h"
#include "simgpu/graph_content.h"

namespace divvy::simgpu {
namespace {

// The beginning and the end of every function below. `describe` comes between, once it is certain
// that nothing else is wrong, because it may reserve memory or take a graph from the program.
template <typename Describe>
CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, size_t count, CUgraphNodeType type,
             const Describe& describe) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  Graph* graph = resolve_graph(call.driver, handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphEdge> edges;
  if (CUresult bad =
          read_dependencies(call.driver, *graph, dependencies, data, count, type, &edges)) {
    return bad;
  }
  NodeContent content;
  if (CUresult bad = describe(call, *graph, &content)) return bad;
  *out = handle_of(add_node(call.driver.graphs(), *graph, std::move(content), edges));
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph,
                                            const CUgraphNode* dependencies, size_t count,
                                            const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_KERNEL,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_kernel(call, params, content);
             });
}
SIMGPU_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph,
                                               const CUgraphNode* dependencies, size_t count,
                                               const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_KERNEL,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_kernel(call, params, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph,
                                            const CUgraphNode* dependencies, size_t count,
                                            const CUDA_MEMCPY3D* params, CUcontext context) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_MEMCPY,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_copy(call, params, context, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph,
                                            const CUgraphNode* dependencies, size_t count,
                                            const CUDA_MEMSET_NODE_PARAMS* params,
                                            CUcontext context) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_MEMSET,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_memset(call, params, context, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph,
                                          const CUgraphNode* dependencies, size_t count,
                                          const CUDA_HOST_NODE_PARAMS* params) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_HOST,
             [&](Call&, Graph&, NodeContent* content) { return describe_host(params, content); });
}

SIMGPU_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph,
                                                const CUgraphNode* dependencies, size_t count,
                                                CUgraph child) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_GRAPH,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_child(call, child, false, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph,
                                           const CUgraphNode* dependencies, size_t count) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_EMPTY,
             [](Call&, Graph&, NodeContent*) { return CUDA_SUCCESS; });
}

SIMGPU_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph,
                                                 const CUgraphNode* dependencies, size_t count,
                                                 CUevent event) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_record(call, event, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph,
                                               const CUgraphNode* dependencies, size_t count,
                                               CUevent event) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_wait(call, event, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph,
                                                const CUgraphNode* dependencies, size_t count,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_memops(call, params, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph,
                                              const CUgraphNode* dependencies, size_t count,
                                              CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
             [&](Call& call, Graph&, NodeContent* content) {
               return describe_alloc(call, params, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph,
                                             const CUgraphNode* dependencies, size_t count,
                                             CUdeviceptr address) {
  return add(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_MEM_FREE,
             [&](Call& call, Graph& of, NodeContent* content) {
               return describe_free(call, of, address, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph,
                                         const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* data, size_t count,
                                         CUgraphNodeParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, data, count, params->type,
             [&](Call& call, Graph& of, NodeContent* content) {
               return describe_any(call, of, params, false, content);
             });
}
SIMGPU_EXPORT CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph,
                                      const CUgraphNode* dependencies, size_t count,
                                      CUgraphNodeParams* params) {
  return cuGraphAddNode_v2(out, graph, dependencies, nullptr, count, params);
}

}  // namespace divvy::simgpu
