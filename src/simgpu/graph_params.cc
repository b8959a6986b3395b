// The exported functions that read and change the parameters of a node in a graph. Executables
// made from the graph before keep what they had.
#include "simgpu/graph.h"
#include "simgpu/graph_content.h"

namespace divvy::simgpu {
namespace {

// Calls `read` with the node, if it is of that type.
template <typename Read>
CUresult get(CUgraphNode handle, CUgraphNodeType type, const void* out, const Read& read) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphNode* node = resolve_node(call.driver, handle);
  if (node == nullptr || out == nullptr || node->content.type != type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  read(*node);
  return CUDA_SUCCESS;
}

template <typename Describe>
CUresult set(CUgraphNode handle, CUgraphNodeType type, const Describe& describe) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphNode* node = resolve_node(call.driver, handle);
  if (node == nullptr || node->content.type != type) return CUDA_ERROR_INVALID_VALUE;
  NodeContent content;
  if (CUresult bad = describe(call, *node, &content)) return bad;
  set_content(call.driver.graphs(), *node, std::move(content));
  return CUDA_SUCCESS;
}

// Both versions of the parameters have these fields.
template <typename Params>
void fill_kernel(GraphNode& node, Params* params) {
  const auto& work = std::get<KernelWork>(node.content.work);
  *params = Params{};
  if (node.content.kernel == nullptr) {
    params->func = reinterpret_cast<CUfunction>(const_cast<Function*>(work.function));
  }
  params->gridDimX = work.grid[0];
  params->gridDimY = work.grid[1];
  params->gridDimZ = work.grid[2];
  params->blockDimX = work.block[0];
  params->blockDimY = work.block[1];
  params->blockDimZ = work.block[2];
  params->sharedMemBytes = work.shared_bytes;
  // The pointers lead into the node and hold until it is changed or destroyed.
  node.param_pointers.clear();
  for (const PtxParam& param : work.function->kernel.params) {
    node.param_pointers.push_back(const_cast<uint8_t*>(work.params.data()) + param.offset);
  }
  if (!node.param_pointers.empty()) params->kernelParams = node.param_pointers.data();
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node,
                                                  CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return get(node, CU_GRAPH_NODE_TYPE_KERNEL, params, [&](GraphNode& found) {
    fill_kernel(found, params);
    // With no field for a CUkernel it goes where a CUfunction goes; both are accepted there.
    if (params->func == nullptr) {
      params->func = reinterpret_cast<CUfunction>(found.content.kernel);
    }
  });
}
SIMGPU_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node,
                                                     CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return get(node, CU_GRAPH_NODE_TYPE_KERNEL, params, [&](GraphNode& found) {
    fill_kernel(found, params);
    params->kern = found.content.kernel;
    params->ctx = handle_of(found.content.context);
  });
}
SIMGPU_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set(node, CU_GRAPH_NODE_TYPE_KERNEL, [&](Call& call, GraphNode&, NodeContent* content) {
    return describe_kernel(call, params, content);
  });
}
SIMGPU_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set(node, CU_GRAPH_NODE_TYPE_KERNEL, [&](Call& call, GraphNode&, NodeContent* content) {
    return describe_kernel(call, params, content);
  });
}

SIMGPU_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return get(node, CU_GRAPH_NODE_TYPE_MEMCPY, params, [&](const GraphNode& found) {
    *params = std::get<CopyWork>(found.content.work).copy;
  });
}
SIMGPU_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return set(node, CU_GRAPH_NODE_TYPE_MEMCPY,
             [&](Call& call, GraphNode& found, NodeContent* content) {
               return describe_copy(call, params, handle_of(found.content.context), content);
             });
}

SIMGPU_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node,
                                                  CUDA_MEMSET_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_MEMSET, params, [&](const GraphNode& found) {
    *params = std::get<MemsetWork>(found.content.work).memset;
  });
}
SIMGPU_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* params) {
  return set(node, CU_GRAPH_NODE_TYPE_MEMSET,
             [&](Call& call, GraphNode& found, NodeContent* content) {
               return describe_memset(call, params, handle_of(found.content.context), content);
             });
}

SIMGPU_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_HOST, params, [&](const GraphNode& found) {
    const auto& work = std::get<HostWork>(found.content.work);
    *params = {work.function, work.data};
  });
}
SIMGPU_EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node,
                                                const CUDA_HOST_NODE_PARAMS* params) {
  return set(node, CU_GRAPH_NODE_TYPE_HOST, [&](Call&, GraphNode&, NodeContent* content) {
    return describe_host(params, content);
  });
}

SIMGPU_EXPORT CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
                                                      CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, [&](GraphNode& found) {
    auto& operations = std::get<MemOpWork>(found.content.work).operations;
    *params = {handle_of(found.content.context), static_cast<unsigned>(operations.size()),
               operations.data(), 0};
  });
}
SIMGPU_EXPORT CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return set(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_memops(call, params, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return get(node, CU_GRAPH_NODE_TYPE_GRAPH, graph,
             [&](const GraphNode& found) { *graph = handle_of(found.content.child.get()); });
}

SIMGPU_EXPORT CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, [&](const GraphNode& found) {
    *event = handle_of(std::get<RecordWork>(found.content.work).event);
  });
}
SIMGPU_EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return set(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_record(call, event, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, [&](const GraphNode& found) {
    *event = handle_of(std::get<WaitWork>(found.content.work).event);
  });
}
SIMGPU_EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return set(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
             [&](Call& call, GraphNode&, NodeContent* content) {
               return describe_wait(call, event, content);
             });
}

SIMGPU_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node,
                                                    CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params, [&](const GraphNode& found) {
    const auto& work = std::get<AllocWork>(found.content.work);
    *params = {found.content.pool, found.content.access.data(), found.content.access.size(),
               work.bytes, work.address};
  });
}
SIMGPU_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, address, [&](const GraphNode& found) {
    *address = std::get<FreeWork>(found.content.work).address;
  });
}

SIMGPU_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set(handle, params->type, [&](Call& call, GraphNode& node, NodeContent* content) {
    return describe_any(call, *node.graph, params, true, content);
  });
}

}  // namespace divvy::simgpu
