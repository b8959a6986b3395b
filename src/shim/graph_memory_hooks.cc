// Graphs that allocate: nodes, instantiation and uploads. Launches are in launch_hooks.cc.
#include "shim/export.h"
#include "shim/graph_memory.h"

using divvy::shim::g_cuda;
using divvy::shim::graph_instantiated;
using divvy::shim::graph_memory_seen;
using divvy::shim::GraphRoom;

namespace {

CUresult instantiated(CUresult result, const CUgraphExec* exec, CUgraph graph) {
  if (result == CUDA_SUCCESS && exec != nullptr) graph_instantiated(*exec, graph);
  return result;
}

bool allocates(const CUgraphNodeParams* params) {
  // A child graph may bring nodes that allocate along.
  return params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}

}  // namespace

DIVVY_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph,
                                             const CUgraphNode* after, size_t count,
                                             CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  DIVVY_NEED(cuGraphAddMemAllocNode);
  graph_memory_seen();
  return g_cuda.cuGraphAddMemAllocNode(out, graph, after, count, params);
}
DIVVY_EXPORT CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                     size_t count, CUgraphNodeParams* params) {
  DIVVY_NEED(cuGraphAddNode);
  if (allocates(params)) graph_memory_seen();
  return g_cuda.cuGraphAddNode(out, graph, after, count, params);
}
DIVVY_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                        const CUgraphEdgeData* edges, size_t count,
                                        CUgraphNodeParams* params) {
  DIVVY_NEED(cuGraphAddNode_v2);
  if (allocates(params)) graph_memory_seen();
  return g_cuda.cuGraphAddNode_v2(out, graph, after, edges, count, params);
}

DIVVY_EXPORT CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node,
                                         char* log, size_t log_bytes) {
  DIVVY_NEED(cuGraphInstantiate);
  return instantiated(g_cuda.cuGraphInstantiate(out, graph, error_node, log, log_bytes), out,
                      graph);
}
DIVVY_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph,
                                            CUgraphNode* error_node, char* log, size_t log_bytes) {
  DIVVY_NEED(cuGraphInstantiate_v2);
  return instantiated(g_cuda.cuGraphInstantiate_v2(out, graph, error_node, log, log_bytes), out,
                      graph);
}
DIVVY_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph,
                                                  unsigned long long flags) {
  DIVVY_NEED(cuGraphInstantiateWithFlags);
  return instantiated(g_cuda.cuGraphInstantiateWithFlags(out, graph, flags), out, graph);
}

// With a flag an instantiation uploads at once; nothing can be refused there any more, so what it
// took is charged afterwards.
#define DIVVY_GRAPH_HOOKS(suffix)                                                                  \
  DIVVY_EXPORT CUresult cuGraphInstantiateWithParams##suffix(                                      \
      CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {                    \
    DIVVY_NEED(cuGraphInstantiateWithParams##suffix);                                              \
    const CUresult result =                                                                        \
        instantiated(g_cuda.cuGraphInstantiateWithParams##suffix(out, graph, params), out, graph); \
    if (result == CUDA_SUCCESS && out != nullptr) divvy::shim::unknown_memory_freed();             \
    divvy::shim::pools_after_wait();                                                               \
    return result;                                                                                 \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuGraphUpload##suffix(CUgraphExec exec, CUstream stream) {                 \
    DIVVY_NEED(cuGraphUpload##suffix);                                                             \
    const GraphRoom room(exec);                                                                    \
    if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;                                           \
    return g_cuda.cuGraphUpload##suffix(exec, stream);                                             \
  }
DIVVY_GRAPH_HOOKS()
DIVVY_GRAPH_HOOKS(_ptsz)

DIVVY_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  DIVVY_NEED(cuGraphExecDestroy);
  divvy::shim::graph_forgotten(exec);
  return g_cuda.cuGraphExecDestroy(exec);
}

DIVVY_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  DIVVY_NEED(cuDeviceGraphMemTrim);
  const CUresult result = g_cuda.cuDeviceGraphMemTrim(device);
  divvy::shim::unknown_memory_freed();
  divvy::shim::pools_after_wait();
  return result;
}
