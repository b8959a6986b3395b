#include "simgpu/graph_content.h"

#include <algorithm>

#include "simgpu/graph_memory.h"
#include "simgpu/memory.h"

namespace divvy::simgpu {
namespace {

constexpr unsigned kMaxMemOps = 256;

CUresult context_or_current(Call& call, CUcontext handle, Context** out) {
  Context* context = handle == nullptr ? call.context : context_of(handle);
  if (context == nullptr || !call.driver.live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *out = context;
  return CUDA_SUCCESS;
}

// Fills what is common and checks memory and arguments as at a submission to a stream.
CUresult finish(Call& call, CUgraphNodeType type, Context* context, Work&& work, NodeContent* out) {
  if (CUresult bad = check_node_work(call.driver, work)) return bad;
  *out = NodeContent{};
  out->type = type;
  out->context = context;
  out->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult resolve_event(Call& call, CUevent handle, Event** out) {
  *out = call.driver.resolve_event(handle);
  return *out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool reserved_is_zero(const CUgraphNodeParams& params) {
  return params.reserved0[0] == 0 && params.reserved0[1] == 0 && params.reserved0[2] == 0 &&
         params.reserved2 == 0;
}

}  // namespace

CUresult describe_kernel(Call& call, const CUDA_KERNEL_NODE_PARAMS_v2* params, NodeContent* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUfunction handle =
      params->func != nullptr ? params->func : reinterpret_cast<CUfunction>(params->kern);
  const Function* function = resolve_function(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Context* context = nullptr;
  CUcontext named = params->ctx;
  // A function belongs to the context its module was loaded in; a CUkernel to none.
  if (named == nullptr && function->module->context != nullptr) {
    named = handle_of(function->module->context);
  }
  if (CUresult bad = context_or_current(call, named, &context)) return bad;
  KernelWork work;
  work.function = function;
  work.grid[0] = params->gridDimX;
  work.grid[1] = params->gridDimY;
  work.grid[2] = params->gridDimZ;
  work.block[0] = params->blockDimX;
  work.block[1] = params->blockDimY;
  work.block[2] = params->blockDimZ;
  work.shared_bytes = params->sharedMemBytes;
  const GpuSpec& spec = call.driver.spec(context->device);
  if (CUresult bad = check_launch(*function, work, spec)) return bad;
  if (CUresult bad = collect_params(work, params->kernelParams, params->extra)) return bad;
  if (CUresult bad = finish(call, CU_GRAPH_NODE_TYPE_KERNEL, context, std::move(work), out)) {
    return bad;
  }
  if (params->func == nullptr) out->kernel = params->kern;
  return CUDA_SUCCESS;
}

CUresult describe_kernel(Call& call, const CUDA_KERNEL_NODE_PARAMS_v1* params, NodeContent* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 full{};
  full.func = params->func;
  full.gridDimX = params->gridDimX;
  full.gridDimY = params->gridDimY;
  full.gridDimZ = params->gridDimZ;
  full.blockDimX = params->blockDimX;
  full.blockDimY = params->blockDimY;
  full.blockDimZ = params->blockDimZ;
  full.sharedMemBytes = params->sharedMemBytes;
  full.kernelParams = params->kernelParams;
  full.extra = params->extra;
  return describe_kernel(call, &full, out);
}

CUresult describe_copy(Call& call, const CUDA_MEMCPY3D* params, CUcontext context_handle,
                       NodeContent* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto known = [](CUmemorytype type) {
    return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
  };
  if (!known(params->srcMemoryType) || !known(params->dstMemoryType)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  if (CUresult bad = context_or_current(call, context_handle, &context)) return bad;
  return finish(call, CU_GRAPH_NODE_TYPE_MEMCPY, context, CopyWork{*params}, out);
}

CUresult describe_memset(Call& call, const CUDA_MEMSET_NODE_PARAMS* params,
                         CUcontext context_handle, NodeContent* out) {
  if (params == nullptr || params->width == 0 || params->height == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  if (CUresult bad = context_or_current(call, context_handle, &context)) return bad;
  return finish(call, CU_GRAPH_NODE_TYPE_MEMSET, context, MemsetWork{*params}, out);
}

CUresult describe_host(const CUDA_HOST_NODE_PARAMS* params, NodeContent* out) {
  if (params == nullptr || params->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = NodeContent{};
  out->type = CU_GRAPH_NODE_TYPE_HOST;
  out->work = HostWork{params->fn, params->userData};
  return CUDA_SUCCESS;
}

CUresult describe_memops(Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params,
                         NodeContent* out) {
  if (params == nullptr || params->ctx == nullptr || params->count == 0 ||
      params->count > kMaxMemOps || params->paramArray == nullptr || params->flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  if (CUresult bad = context_or_current(call, params->ctx, &context)) return bad;
  MemOpWork work;
  work.operations.assign(params->paramArray, params->paramArray + params->count);
  return finish(call, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, context, std::move(work), out);
}

CUresult describe_record(Call& call, CUevent handle, NodeContent* out) {
  Event* event = nullptr;
  if (CUresult bad = resolve_event(call, handle, &event)) return bad;
  return finish(call, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event->context, RecordWork{event}, out);
}

CUresult describe_wait(Call& call, CUevent handle, NodeContent* out) {
  Event* event = nullptr;
  if (CUresult bad = resolve_event(call, handle, &event)) return bad;
  return finish(call, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event->context, WaitWork{event}, out);
}

CUresult describe_child(Call& call, CUgraph handle, bool move, NodeContent* out) {
  Graphs& graphs = call.driver.graphs();
  Graph* graph = resolve_graph(call.driver, handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<Graph> child;
  if (move) {
    const auto owned = graphs.owned.find(graph);
    if (owned == graphs.owned.end() || graph->being_captured || graph->instance != nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    child = std::move(owned->second);
    graphs.owned.erase(owned);
  } else {
    if (graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
    child = copy_graph(graphs, *graph, nullptr);
  }
  *out = NodeContent{};
  out->type = CU_GRAPH_NODE_TYPE_GRAPH;
  out->child = std::move(child);
  return CUDA_SUCCESS;
}

CUresult describe_alloc(Call& call, CUDA_MEM_ALLOC_NODE_PARAMS* params, NodeContent* out) {
  if (call.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (params == nullptr || params->bytesize == 0 ||
      params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      !call.driver.valid_device(params->poolProps.location.id) ||
      (params->accessDescCount > 0 && params->accessDescs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  AllocWork work;
  work.device = params->poolProps.location.id;
  work.bytes = params->bytesize;
  if (CUresult bad = reserve_graph_memory(call.driver, work.device, work.bytes, &work.address)) {
    return bad;
  }
  params->dptr = work.address;
  *out = NodeContent{};
  out->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  out->context = call.context;
  out->pool = params->poolProps;
  if (params->accessDescCount > 0) {
    out->access.assign(params->accessDescs, params->accessDescs + params->accessDescCount);
  }
  out->work = work;
  return CUDA_SUCCESS;
}

CUresult describe_free(Call& call, const Graph& graph, CUdeviceptr address, NodeContent* out) {
  if (call.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!may_free(call.driver, graph, address)) return CUDA_ERROR_INVALID_VALUE;
  return finish(call, CU_GRAPH_NODE_TYPE_MEM_FREE, call.context, FreeWork{address}, out);
}

CUresult describe_any(Call& call, const Graph& graph, CUgraphNodeParams* params, bool changing,
                      NodeContent* out) {
  if (params == nullptr || !reserved_is_zero(*params)) return CUDA_ERROR_INVALID_VALUE;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      // The third version of the parameters has the fields of the second.
      CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
      static_assert(sizeof kernel == sizeof params->kernel);
      const auto* bytes = reinterpret_cast<const unsigned char*>(&params->kernel);
      std::copy_n(bytes, sizeof kernel, reinterpret_cast<unsigned char*>(&kernel));
      return describe_kernel(call, &kernel, out);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params->memcpy.flags != 0 || params->memcpy.reserved != 0) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      return describe_copy(call, &params->memcpy.copyParams, params->memcpy.copyCtx, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& given = params->memset;
      const CUDA_MEMSET_NODE_PARAMS memset{given.dst,         given.pitch, given.value,
                                           given.elementSize, given.width, given.height};
      return describe_memset(call, &memset, given.ctx, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{params->host.fn, params->host.userData};
      return describe_host(&host, out);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return describe_child(call, params->graph.graph,
                            params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *out = NodeContent{};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return describe_wait(call, params->eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return describe_record(call, params->eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const auto& given = params->memOp;
      const CUDA_BATCH_MEM_OP_NODE_PARAMS memops{given.ctx, given.count, given.paramArray,
                                                 given.flags};
      return describe_memops(call, &memops, out);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      if (changing) return CUDA_ERROR_NOT_SUPPORTED;
      auto& given = params->alloc;
      CUDA_MEM_ALLOC_NODE_PARAMS alloc{given.poolProps, given.accessDescs, given.accessDescCount,
                                       given.bytesize, 0};
      const CUresult result = describe_alloc(call, &alloc, out);
      if (result == CUDA_SUCCESS) given.dptr = alloc.dptr;
      return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      if (changing) return CUDA_ERROR_NOT_SUPPORTED;
      return describe_free(call, graph, params->free.dptr, out);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace divvy::simgpu
