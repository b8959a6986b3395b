#include "simgpu/graph.h"

#include <algorithm>

#include "simgpu/graph_memory.h"

namespace divvy::simgpu {
namespace {

Event* event_of(const NodeContent& content) {
  if (const auto* record = std::get_if<RecordWork>(&content.work)) return record->event;
  if (const auto* wait = std::get_if<WaitWork>(&content.work)) return wait->event;
  return nullptr;
}

void hold_event(const NodeContent& content) {
  if (Event* event = event_of(content)) ++event->references;
}

void let_go_of_event(const NodeContent& content) {
  if (Event* event = event_of(content)) unreference(*event);
}

bool is_memory(const NodeContent& content) {
  return std::holds_alternative<AllocWork>(content.work) ||
         std::holds_alternative<FreeWork>(content.work);
}

void forget_node(Graphs& graphs, GraphNode& node) {
  graphs.nodes.erase(&node);
  let_go_of_event(node.content);
  if (node.content.child != nullptr) forget_graph(graphs, *node.content.child);
}

bool erase_edge(std::vector<GraphEdge>& edges, const GraphNode& node) {
  return std::erase_if(edges, [&](const GraphEdge& edge) { return edge.node == &node; }) > 0;
}

}  // namespace

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return is_memory(node->content) ||
           (node->content.child != nullptr && node->content.child->has_memory_nodes());
  });
}

GraphNode* Graph::find_origin(uint64_t node_id) const {
  for (const auto& node : nodes) {
    if (node->origin == node_id) return node.get();
  }
  return nullptr;
}

GraphCall::GraphCall() : Call(kInit) {
  if (error != CUDA_SUCCESS) return;
  const auto& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr || !driver.live(stack.back())) return;
  context = stack.back();
  error = fault_of(driver, lock, *context);
}

CUresult GraphCall::resolve_stream(CUstream handle, Stream** out) {
  // The default streams are those of the current context.
  if (context == nullptr && reinterpret_cast<uintptr_t>(handle) <= 2) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (CUresult bad = driver.resolve_stream(handle, context, out)) return bad;
  return fault_of(driver, lock, *(*out)->context);
}

Graph* resolve_graph(Driver& driver, CUgraph handle) {
  auto* graph = reinterpret_cast<Graph*>(handle);
  return driver.graphs().graphs.contains(graph) && !graph->executable ? graph : nullptr;
}

GraphNode* resolve_node(Driver& driver, CUgraphNode handle) {
  auto* node = reinterpret_cast<GraphNode*>(handle);
  return driver.graphs().nodes.contains(node) && !node->graph->executable ? node : nullptr;
}

GraphExec* resolve_exec(Driver& driver, CUgraphExec handle) {
  auto* exec = reinterpret_cast<GraphExec*>(handle);
  return driver.graphs().execs.contains(exec) ? exec : nullptr;
}

std::unique_ptr<Graph> make_graph(Graphs& graphs) {
  auto graph = std::make_unique<Graph>();
  graph->id = ++graphs.last_id;
  graphs.graphs.insert(graph.get());
  return graph;
}

void forget_graph(Graphs& graphs, Graph& graph) {
  for (const auto& node : graph.nodes) forget_node(graphs, *node);
  graphs.graphs.erase(&graph);
}

void destroy_graph(Driver& driver, Graph& graph) {
  Graphs& graphs = driver.graphs();
  if (graph.instance != nullptr) {
    // The executable can still be launched, so the addresses stay until it goes too.
    graph.instance->source = nullptr;
    graph.instance->owns_addresses = true;
  } else {
    forget_addresses(driver, graph);
  }
  forget_graph(graphs, graph);
  graphs.owned.erase(&graph);
}

std::unique_ptr<Graph> copy_graph(Graphs& graphs, const Graph& source,
                                  std::unordered_map<uint64_t, GraphNode*>* found) {
  std::unordered_map<uint64_t, GraphNode*> copies;
  auto copy = make_graph(graphs);
  copy->origin = source.id;
  copy->nodes.reserve(source.nodes.size());
  for (const auto& node : source.nodes) {
    NodeContent content = copy_content(node->content);
    if (node->content.child != nullptr) {
      content.child = copy_graph(graphs, *node->content.child, found);
    }
    GraphNode* made = add_node(graphs, *copy, std::move(content), {});
    made->origin = node->id;
    made->enabled = node->enabled;
    copies[node->id] = made;
  }
  // In the source's own order on both sides, so that a copy lists its edges as the source does.
  for (const auto& node : source.nodes) {
    GraphNode* made = copies[node->id];
    for (const GraphEdge& edge : node->dependencies) {
      made->dependencies.push_back({copies[edge.node->id], edge.data});
    }
    for (const GraphEdge& edge : node->dependents) {
      made->dependents.push_back({copies[edge.node->id], edge.data});
    }
  }
  if (found != nullptr) found->insert(copies.begin(), copies.end());
  return copy;
}

NodeContent copy_content(const NodeContent& content) {
  NodeContent copy;
  copy.type = content.type;
  copy.context = content.context;
  copy.work = content.work;
  copy.kernel = content.kernel;
  copy.pool = content.pool;
  copy.access = content.access;
  return copy;
}

GraphNode* add_node(Graphs& graphs, Graph& graph, NodeContent&& content,
                    const std::vector<GraphEdge>& dependencies) {
  auto node = std::make_unique<GraphNode>();
  GraphNode* made = node.get();
  made->id = ++graphs.last_id;
  made->graph = &graph;
  made->content = std::move(content);
  if (made->content.child != nullptr) made->content.child->owner = made;
  hold_event(made->content);
  graphs.nodes.insert(made);
  graph.nodes.push_back(std::move(node));
  for (const GraphEdge& edge : dependencies) connect(*edge.node, *made, edge.data);
  return made;
}

void remove_node(Graphs& graphs, GraphNode& node) {
  for (const GraphEdge& edge : node.dependencies) erase_edge(edge.node->dependents, node);
  for (const GraphEdge& edge : node.dependents) erase_edge(edge.node->dependencies, node);
  forget_node(graphs, node);
  std::erase_if(node.graph->nodes, [&](const auto& other) { return other.get() == &node; });
}

void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data) {
  from.dependents.push_back({&to, data});
  to.dependencies.push_back({&from, data});
}

bool disconnect(GraphNode& from, GraphNode& to) {
  erase_edge(to.dependencies, from);
  return erase_edge(from.dependents, to);
}

void set_content(Graphs& graphs, GraphNode& node, NodeContent&& content) {
  hold_event(content);
  let_go_of_event(node.content);
  if (node.content.child != nullptr) forget_graph(graphs, *node.content.child);
  node.content = std::move(content);
  if (node.content.child != nullptr) node.content.child->owner = &node;
}

bool valid_edge_data(const CUgraphEdgeData& data, const GraphNode& from, CUgraphNodeType to) {
  if (data.to_port != 0 || std::any_of(std::begin(data.reserved), std::end(data.reserved),
                                       [](unsigned char byte) { return byte != 0; })) {
    return false;
  }
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) {
    return data.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
  }
  return data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         (data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
          data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
         from.content.type == CU_GRAPH_NODE_TYPE_KERNEL && to == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult read_dependencies(Driver& driver, const Graph& graph, const CUgraphNode* nodes,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeType to,
                           std::vector<GraphEdge>* out) {
  if (count > 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unordered_set<const GraphNode*> seen;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = resolve_node(driver, nodes[i]);
    if (node == nullptr || node->graph != &graph || !seen.insert(node).second) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    GraphEdge edge{node, data == nullptr ? CUgraphEdgeData{} : data[i]};
    if (!valid_edge_data(edge.data, *node, to)) return CUDA_ERROR_INVALID_VALUE;
    out->push_back(edge);
  }
  return CUDA_SUCCESS;
}

std::unordered_set<const GraphNode*> ancestors(const std::vector<GraphNode*>& nodes) {
  std::unordered_set<const GraphNode*> seen(nodes.begin(), nodes.end());
  std::vector<const GraphNode*> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    for (const GraphEdge& edge : node->dependencies) {
      if (seen.insert(edge.node).second) open.push_back(edge.node);
    }
  }
  return seen;
}

const GraphNode* find_circle(const Graph& graph) {
  std::unordered_map<const GraphNode*, size_t> missing;
  std::vector<const GraphNode*> ready;
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) ready.push_back(node.get());
  }
  size_t ordered = 0;
  while (!ready.empty()) {
    const GraphNode* node = ready.back();
    ready.pop_back();
    ++ordered;
    for (const GraphEdge& edge : node->dependents) {
      if (--missing[edge.node] == 0) ready.push_back(edge.node);
    }
  }
  if (ordered == graph.nodes.size()) return nullptr;
  for (const auto& node : graph.nodes) {
    if (missing[node.get()] > 0) return node.get();
  }
  return nullptr;
}

}  // namespace divvy::simgpu
