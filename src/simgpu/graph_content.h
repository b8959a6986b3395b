// Reads the parameters of graph nodes, as the exported functions take them, into NodeContent, and
// refuses what the driver refuses. One function for each kind of node: adding a node, changing it
// and changing it in an executable all go through the same one.
//
// `out` is touched only on success. Called with the driver's mutex held. Where a program names no
// context the current one is meant, and the call fails when there is none.
#pragma once

#include "simgpu/graph.h"

namespace divvy::simgpu {

CUresult describe_kernel(Call& call, const CUDA_KERNEL_NODE_PARAMS_v2* params, NodeContent* out);
// The first version of the parameters lacks the last two fields.
CUresult describe_kernel(Call& call, const CUDA_KERNEL_NODE_PARAMS_v1* params, NodeContent* out);
CUresult describe_copy(Call& call, const CUDA_MEMCPY3D* params, CUcontext context,
                       NodeContent* out);
CUresult describe_memset(Call& call, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context,
                         NodeContent* out);
CUresult describe_host(const CUDA_HOST_NODE_PARAMS* params, NodeContent* out);
CUresult describe_memops(Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params, NodeContent* out);
CUresult describe_record(Call& call, CUevent event, NodeContent* out);
CUresult describe_wait(Call& call, CUevent event, NodeContent* out);
// With `move`, the graph stops being the program's and becomes the node's.
CUresult describe_child(Call& call, CUgraph graph, bool move, NodeContent* out);
// Reserves the addresses, which are written into `params`.
CUresult describe_alloc(Call& call, CUDA_MEM_ALLOC_NODE_PARAMS* params, NodeContent* out);
CUresult describe_free(Call& call, const Graph& graph, CUdeviceptr address, NodeContent* out);

// Any of them, as cuGraphAddNode and cuGraphNodeSetParams take them. With `changing`, kinds whose
// parameters cannot be changed are refused.
CUresult describe_any(Call& call, const Graph& graph, CUgraphNodeParams* params, bool changing,
                      NodeContent* out);

}  // namespace divvy::simgpu
