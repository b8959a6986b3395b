// Giving an executable graph the parameters of another graph of the same shape.
#include <algorithm>

#include "simgpu/graph.h"

namespace divvy::simgpu {
namespace {

using Positions = std::unordered_map<const GraphNode*, size_t>;

Positions positions_of(const Graph& graph) {
  Positions positions;
  for (size_t i = 0; i < graph.nodes.size(); ++i) positions[graph.nodes[i].get()] = i;
  return positions;
}

std::vector<size_t> dependencies_of(const GraphNode& node, const Positions& positions) {
  std::vector<size_t> found;
  found.reserve(node.dependencies.size());
  for (const GraphEdge& edge : node.dependencies) found.push_back(positions.at(edge.node));
  std::sort(found.begin(), found.end());
  return found;
}

bool refuse(UpdateComplaint* complaint, CUgraphExecUpdateResult result, const GraphNode* node,
            const GraphNode* from = nullptr) {
  *complaint = {result, node, from};
  return false;
}

// What may not change although the type of the node is the same.
bool same_kind(const GraphNode& mine, const GraphNode& theirs, UpdateComplaint* complaint) {
  const NodeContent& a = mine.content;
  const NodeContent& b = theirs.content;
  if (a.type == CU_GRAPH_NODE_TYPE_KERNEL && a.context != b.context) {
    return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, &theirs);
  }
  if (a.context != b.context) {
    return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, &theirs);
  }
  if (a.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const CUDA_MEMCPY3D& from = std::get<CopyWork>(a.work).copy;
    const CUDA_MEMCPY3D& to = std::get<CopyWork>(b.work).copy;
    if (from.srcMemoryType != to.srcMemoryType || from.dstMemoryType != to.dstMemoryType) {
      return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, &theirs);
    }
  }
  if (a.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP &&
      std::get<MemOpWork>(a.work).operations.size() !=
          std::get<MemOpWork>(b.work).operations.size()) {
    return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, &theirs);
  }
  // Addresses of memory nodes are fixed.
  if (const auto* alloc = std::get_if<AllocWork>(&a.work);
      alloc != nullptr && alloc->address != std::get<AllocWork>(b.work).address) {
    return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, &theirs);
  }
  if (const auto* free = std::get_if<FreeWork>(&a.work);
      free != nullptr && free->address != std::get<FreeWork>(b.work).address) {
    return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, &theirs);
  }
  return true;
}

CUresult update(CUgraphExec exec_handle, CUgraph graph_handle, UpdateComplaint* complaint) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  *complaint = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  GraphExec* exec = resolve_exec(call.driver, exec_handle);
  const Graph* graph = resolve_graph(call.driver, graph_handle);
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *complaint = {};
  if (!can_update(*exec->graph, *graph, complaint)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  apply_update(call.driver.graphs(), *exec->graph, *graph);
  exec->stale = true;
  return CUDA_SUCCESS;
}

}  // namespace

bool can_update(const Graph& mine, const Graph& theirs, UpdateComplaint* complaint) {
  if (mine.nodes.size() != theirs.nodes.size()) {
    return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  }
  const Positions my_positions = positions_of(mine);
  const Positions their_positions = positions_of(theirs);
  for (size_t i = 0; i < mine.nodes.size(); ++i) {
    const GraphNode& a = *mine.nodes[i];
    const GraphNode& b = *theirs.nodes[i];
    if (dependencies_of(a, my_positions) != dependencies_of(b, their_positions)) {
      return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &b);
    }
    if (a.content.type != b.content.type) {
      return refuse(complaint, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, &b);
    }
    if (!same_kind(a, b, complaint)) return false;
    if (a.content.child != nullptr && !can_update(*a.content.child, *b.content.child, complaint)) {
      return false;
    }
  }
  return true;
}

void apply_update(Graphs& graphs, Graph& mine, const Graph& theirs) {
  for (size_t i = 0; i < mine.nodes.size(); ++i) {
    GraphNode& node = *mine.nodes[i];
    const NodeContent& wanted = theirs.nodes[i]->content;
    if (node.content.child != nullptr) {
      apply_update(graphs, *node.content.child, *wanted.child);
      continue;
    }
    set_content(graphs, node, copy_content(wanted));
  }
}

SIMGPU_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                            CUgraphExecUpdateResultInfo* info) {
  UpdateComplaint complaint;
  const CUresult result = update(exec, graph, &complaint);
  if (info != nullptr) {
    info->result = complaint.result;
    info->errorNode = handle_of(const_cast<GraphNode*>(complaint.node));
    info->errorFromNode = handle_of(const_cast<GraphNode*>(complaint.from));
  }
  return result;
}

SIMGPU_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                                         CUgraphExecUpdateResult* result_out) {
  UpdateComplaint complaint;
  const CUresult result = update(exec, graph, &complaint);
  if (error_node != nullptr) *error_node = handle_of(const_cast<GraphNode*>(complaint.node));
  if (result_out != nullptr) {
    // Graphs of different sizes have another name in this version of the function.
    const bool sizes_differ = complaint.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED &&
                              complaint.node == nullptr;
    *result_out = sizes_differ ? CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED : complaint.result;
  }
  return result;
}

}  // namespace divvy::simgpu
