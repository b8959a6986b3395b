// The exported functions about the shape of a graph: making, copying and destroying graphs, and
// reading and changing their edges.
#include <algorithm>

#include "simgpu/capture.h"
#include "simgpu/graph.h"

namespace divvy::simgpu {
namespace {

bool is_default(const CUgraphEdgeData& data) {
  return data.from_port == 0 && data.to_port == 0 && data.type == 0;
}

// The driver's convention for lists: with no array it tells how many there are; with one it fills
// as much as fits, clears what is left over and tells how many it wrote.
CUresult write_nodes(const std::vector<GraphNode*>& found, CUgraphNode* out, size_t* count) {
  if (out == nullptr) {
    *count = found.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) out[i] = i < found.size() ? handle_of(found[i]) : nullptr;
  *count = std::min(*count, found.size());
  return CUDA_SUCCESS;
}

struct Edge {
  GraphNode* from;
  GraphNode* to;
  CUgraphEdgeData data;
};

// `lossy_refused`: the first versions of these functions cannot show edge data, and say so.
CUresult write_edges(const std::vector<Edge>& found, CUgraphNode* from, CUgraphNode* to,
                     CUgraphEdgeData* data, size_t* count, bool lossy_refused) {
  if (from == nullptr && to == nullptr) {
    if (data != nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = found.size();
    return CUDA_SUCCESS;
  }
  if (lossy_refused || data == nullptr) {
    for (size_t i = 0; i < std::min(*count, found.size()); ++i) {
      if (!is_default(found[i].data)) return CUDA_ERROR_LOSSY_QUERY;
    }
  }
  for (size_t i = 0; i < *count; ++i) {
    const bool filled = i < found.size();
    if (from != nullptr) from[i] = filled ? handle_of(found[i].from) : nullptr;
    if (to != nullptr) to[i] = filled ? handle_of(found[i].to) : nullptr;
    if (data != nullptr) data[i] = filled ? found[i].data : CUgraphEdgeData{};
  }
  *count = std::min(*count, found.size());
  return CUDA_SUCCESS;
}

CUresult get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   size_t* count, bool first_version) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Graph* graph = resolve_graph(call.driver, handle);
  if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Edge> edges;
  for (const auto& node : graph->nodes) {
    for (const GraphEdge& edge : node->dependents) {
      edges.push_back({node.get(), edge.node, edge.data});
    }
  }
  return write_edges(edges, from, to, data, count, first_version);
}

enum class Side { kDependencies, kDependents };

CUresult get_neighbours(CUgraphNode handle, Side side, CUgraphNode* out, CUgraphEdgeData* data,
                        size_t* count, bool first_version) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphNode* node = resolve_node(call.driver, handle);
  if (node == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Edge> edges;
  for (const GraphEdge& edge :
       side == Side::kDependencies ? node->dependencies : node->dependents) {
    edges.push_back({edge.node, node, edge.data});
  }
  return write_edges(edges, out, nullptr, data, count, first_version);
}

const GraphEdge* find_edge(const GraphNode& from, const GraphNode& to) {
  for (const GraphEdge& edge : to.dependencies) {
    if (edge.node == &from) return &edge;
  }
  return nullptr;
}

// Reads both ends of every edge before anything is changed.
CUresult read_edges(Driver& driver, const Graph* graph, const CUgraphNode* from,
                    const CUgraphNode* to, const CUgraphEdgeData* data, size_t count,
                    std::vector<Edge>* out) {
  if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    Edge edge{resolve_node(driver, from[i]), resolve_node(driver, to[i]),
              data == nullptr ? CUgraphEdgeData{} : data[i]};
    if (edge.from == nullptr || edge.to == nullptr || edge.from->graph != graph ||
        edge.to->graph != graph || edge.from == edge.to ||
        !valid_edge_data(edge.data, *edge.from, edge.to->content.type)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    out->push_back(edge);
  }
  return CUDA_SUCCESS;
}

CUresult add_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  std::vector<Edge> edges;
  Graph* graph = resolve_graph(call.driver, handle);
  if (CUresult bad = read_edges(call.driver, graph, from, to, data, count, &edges)) return bad;
  for (const Edge& edge : edges) {
    if (find_edge(*edge.from, *edge.to) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  // A circle is refused only when the graph is instantiated, as by the real driver.
  for (const Edge& edge : edges) connect(*edge.from, *edge.to, edge.data);
  return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, size_t count) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  std::vector<Edge> edges;
  Graph* graph = resolve_graph(call.driver, handle);
  if (CUresult bad = read_edges(call.driver, graph, from, to, data, count, &edges)) return bad;
  if (count > 0 && graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  for (const Edge& edge : edges) {
    if (find_edge(*edge.from, *edge.to) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const Edge& edge : edges) disconnect(*edge.from, *edge.to);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Graphs& graphs = call.driver.graphs();
  auto graph = make_graph(graphs);
  *out = handle_of(graph.get());
  graphs.owned[graph.get()] = std::move(graph);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Graph* graph = resolve_graph(call.driver, handle);
  // A child graph belongs to its node, so it is not the program's to destroy.
  if (graph == nullptr || graph->owner != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (graph->being_captured) return CUDA_ERROR_ILLEGAL_STATE;
  destroy_graph(call.driver, *graph);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Graph* graph = resolve_graph(call.driver, handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  Graphs& graphs = call.driver.graphs();
  auto copy = copy_graph(graphs, *graph, nullptr);
  *out = handle_of(copy.get());
  graphs.owned[copy.get()] = std::move(copy);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original,
                                              CUgraph clone) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const GraphNode* node = resolve_node(call.driver, original);
  const Graph* graph = resolve_graph(call.driver, clone);
  if (out == nullptr || node == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* found = graph->find_origin(node->id);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Graph* graph = resolve_graph(call.driver, handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> found;
  found.reserve(graph->nodes.size());
  for (const auto& node : graph->nodes) found.push_back(node.get());
  return write_nodes(found, nodes, count);
}

SIMGPU_EXPORT CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Graph* graph = resolve_graph(call.driver, handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> found;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) found.push_back(node.get());
  }
  return write_nodes(found, nodes, count);
}

SIMGPU_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                       size_t* count) {
  return get_edges(graph, from, to, nullptr, count, true);
}
SIMGPU_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                          CUgraphEdgeData* data, size_t* count) {
  return get_edges(graph, from, to, data, count, false);
}

SIMGPU_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out,
                                                  size_t* count) {
  return get_neighbours(node, Side::kDependencies, out, nullptr, count, true);
}
SIMGPU_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out,
                                                     CUgraphEdgeData* data, size_t* count) {
  return get_neighbours(node, Side::kDependencies, out, data, count, false);
}

SIMGPU_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out,
                                                    size_t* count) {
  return get_neighbours(node, Side::kDependents, out, nullptr, count, true);
}
SIMGPU_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out,
                                                       CUgraphEdgeData* data, size_t* count) {
  return get_neighbours(node, Side::kDependents, out, data, count, false);
}

SIMGPU_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, size_t count) {
  return add_edges(graph, from, to, nullptr, count);
}
SIMGPU_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                 const CUgraphNode* to, const CUgraphEdgeData* data,
                                                 size_t count) {
  return add_edges(graph, from, to, data, count);
}

SIMGPU_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                                 const CUgraphNode* to, size_t count) {
  return remove_edges(graph, from, to, nullptr, count);
}
SIMGPU_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                    const CUgraphNode* to,
                                                    const CUgraphEdgeData* data, size_t count) {
  return remove_edges(graph, from, to, data, count);
}

SIMGPU_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphNode* node = resolve_node(call.driver, handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node->graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  forget_captured_node(call.driver, *node);
  remove_node(call.driver.graphs(), *node);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const GraphNode* node = resolve_node(call.driver, handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->content.type;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
