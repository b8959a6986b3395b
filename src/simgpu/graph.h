// Graphs, their nodes and what they become when instantiated: the data behind CUgraph, CUgraphNode
// and CUgraphExec, and the operations that the exported functions share.
//
// A program holds plain pointers as handles. Every living graph, node and executable stands in a
// set of Graphs, so a handle that is none of ours is refused and never followed.
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "simgpu/driver.h"
#include "simgpu/work.h"

namespace divvy::simgpu {

struct Graph;
struct GraphExec;
struct GraphNode;

struct GraphEdge {
  GraphNode* node = nullptr;
  CUgraphEdgeData data{};
};

// What a node does, as its parameters say: made by the functions of graph_content.h and put into a
// new node, an existing one, or a node of an executable.
struct NodeContent {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Context* context = nullptr;  // where it runs; null for nodes that need none
  Work work;
  CUkernel kernel = nullptr;  // kernel nodes: set when the program named a CUkernel
  CUmemPoolProps pool{};      // allocation nodes: as given, for cuGraphMemAllocNodeGetParams
  std::vector<CUmemAccessDesc> access;
  std::unique_ptr<Graph> child;  // child graph nodes: the node's own copy
};

struct GraphNode {
  uint64_t id = 0;
  uint64_t origin = 0;  // id of the node that this one is a copy of
  Graph* graph = nullptr;
  NodeContent content;
  bool enabled = true;  // only ever false in an executable
  std::vector<GraphEdge> dependencies;
  std::vector<GraphEdge> dependents;
  std::vector<void*> param_pointers;  // what cuGraphKernelNodeGetParams hands out
};

struct Graph {
  uint64_t id = 0;
  uint64_t origin = 0;            // id of the graph that this one is a copy of
  GraphNode* owner = nullptr;     // the child graph node that it belongs to
  bool being_captured = false;    // belongs to a capture that has not ended
  bool executable = false;        // the private copy inside a GraphExec
  GraphExec* instance = nullptr;  // the one executable that graphs with memory nodes may have
  std::vector<std::unique_ptr<GraphNode>> nodes;  // in order of creation

  // Memory nodes tie a graph down: it cannot be copied, thinned out, or instantiated twice.
  bool has_memory_nodes() const;
  GraphNode* find_origin(uint64_t node_id) const;
};

// Every node, children's nodes included.
template <typename Visit>
void for_each_node(const Graph& graph, const Visit& visit) {
  for (const auto& node : graph.nodes) {
    visit(*node);
    if (node->content.child != nullptr) for_each_node(*node->content.child, visit);
  }
}

struct GraphExec {
  uint64_t id = 0;
  uint64_t flags = 0;
  Graph* source = nullptr;       // made from it; set for memory nodes only, while it lives
  bool owns_addresses = false;   // the source with memory nodes is gone
  std::unique_ptr<Graph> graph;  // a private copy
  std::unordered_map<uint64_t, GraphNode*> by_source;  // ids of the source's nodes, children too
  std::unordered_map<Context*, uint64_t> contexts;     // where it runs, with their ids

  bool stale = true;  // a parameter changed, so `list` has to be made again
  std::shared_ptr<const OpList> list;
  uint64_t cost_ns = 0;
  uint64_t kernels = 0;
  bool has_events = false;  // versions are known only at launch

  // Memory nodes: addresses that one launch allocates, those of them that it leaves allocated, and
  // those of other graphs that it frees.
  std::vector<CUdeviceptr> allocates;
  std::vector<CUdeviceptr> leaves;
  std::vector<CUdeviceptr> frees;

  // Launches of one executable never overlap, so a launch in another stream waits for the last.
  // The stream is held by a reference; the context's id tells whether it still exists.
  Stream* last_stream = nullptr;
  Context* last_context = nullptr;
  uint64_t last_context_id = 0;
  uint64_t last_count = 0;
};

struct Graphs {
  std::unordered_map<const Graph*, std::unique_ptr<Graph>> owned;  // those a program must destroy
  std::unordered_set<const Graph*> graphs;                         // all, children included
  std::unordered_set<const GraphNode*> nodes;
  std::unordered_map<const GraphExec*, std::unique_ptr<GraphExec>> execs;
  std::vector<std::shared_ptr<Capture>> captures;  // not yet ended
  uint64_t last_id = 0;
};

inline CUgraph handle_of(Graph* graph) { return reinterpret_cast<CUgraph>(graph); }
inline CUgraphNode handle_of(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }
inline CUgraphExec handle_of(GraphExec* exec) { return reinterpret_cast<CUgraphExec>(exec); }

// A call about graphs. Unlike streams they need no current context; `context` is it if there is
// one.
struct GraphCall : Call {
  GraphCall();
  // The stream behind a handle, which may be in another context than the current one.
  CUresult resolve_stream(CUstream handle, Stream** out);
};

// Null for what is no living graph, node or executable of a program's.
Graph* resolve_graph(Driver& driver, CUgraph handle);
GraphNode* resolve_node(Driver& driver, CUgraphNode handle);
GraphExec* resolve_exec(Driver& driver, CUgraphExec handle);

// A new graph that the caller owns; it is known to `graphs` until forget_graph.
std::unique_ptr<Graph> make_graph(Graphs& graphs);
void forget_graph(Graphs& graphs, Graph& graph);
// Ends a graph of the program's, with its nodes and the addresses that they reserved.
void destroy_graph(Driver& driver, Graph& graph);
// A copy with copies of all nodes; `found` receives source node id -> copy, children included.
std::unique_ptr<Graph> copy_graph(Graphs& graphs, const Graph& source,
                                  std::unordered_map<uint64_t, GraphNode*>* found);

// All of it but the child graph.
NodeContent copy_content(const NodeContent& content);

// Adds a node behind `dependencies`, which are nodes of the same graph.
GraphNode* add_node(Graphs& graphs, Graph& graph, NodeContent&& content,
                    const std::vector<GraphEdge>& dependencies);
void remove_node(Graphs& graphs, GraphNode& node);
void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);
// False when there was no such edge.
bool disconnect(GraphNode& from, GraphNode& to);
// Edge data other than the default is for an edge between two kernels.
bool valid_edge_data(const CUgraphEdgeData& data, const GraphNode& from, CUgraphNodeType to);
// Replaces what a node does. Events stay alive while a node points at them.
void set_content(Graphs& graphs, GraphNode& node, NodeContent&& content);

// Reads handles and edge data that a program passed for edges to a node of type `to`. INVALID_VALUE
// for strangers, duplicates and nodes of another graph.
CUresult read_dependencies(Driver& driver, const Graph& graph, const CUgraphNode* nodes,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeType to,
                           std::vector<GraphEdge>* out);

// All that `nodes` follow, and themselves.
std::unordered_set<const GraphNode*> ancestors(const std::vector<GraphNode*>& nodes);
// A node that lies on or behind a circle of edges; null when every node can be reached in order.
const GraphNode* find_circle(const Graph& graph);

// In graph_lower.cc: makes the operations of one launch from the executable's graph.
void lower_graph(Driver& driver, GraphExec& exec);

// In graph_update.cc: whether `mine` can take over all parameters of `theirs`, and doing it.
struct UpdateComplaint {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  const GraphNode* node = nullptr;
  const GraphNode* from = nullptr;
};
bool can_update(const Graph& mine, const Graph& theirs, UpdateComplaint* complaint);
void apply_update(Graphs& graphs, Graph& mine, const Graph& theirs);

}  // namespace divvy::simgpu
