// Turns an executable's graph into the list of operations that one launch runs.
//
// A launch is one queue entry whose operations run one after the other, so branches that a GPU
// would run side by side are laid out in rounds: each round takes every node whose dependencies are
// done. Nodes that wait for something outside the graph go last, when nothing else can run, so
// that a branch which waits for another branch's write cannot block it. The kernels of a round
// become one operation that lasts as long as a GPU needs which fills itself with as many of them
// as fit.
#include <algorithm>

#include "simgpu/graph.h"
#include "simgpu/graph_memory.h"

namespace divvy::simgpu {
namespace {

// A node of the graph or of a child graph, with children opened up. The step of a child graph node
// stands behind the child's own nodes and does nothing.
struct Step {
  const GraphNode* node = nullptr;
  std::vector<size_t> followers;
  size_t missing = 0;
};

class Steps {
 public:
  // Appends the nodes of `graph`, all behind the steps in `before`. Returns the last ones.
  std::vector<size_t> add(const Graph& graph, const std::vector<size_t>& before) {
    std::unordered_map<const GraphNode*, size_t> step_of;
    std::vector<size_t> last;
    for (const GraphNode* node : in_order(graph)) {
      std::vector<size_t> behind;
      behind.reserve(node->dependencies.size());
      for (const GraphEdge& edge : node->dependencies) behind.push_back(step_of[edge.node]);
      if (behind.empty()) behind = before;
      if (node->content.child != nullptr && node->enabled) {
        behind = add(*node->content.child, behind);
      }
      const size_t step = steps_.size();
      steps_.push_back({node, {}, behind.size()});
      for (const size_t other : behind) steps_[other].followers.push_back(step);
      step_of[node] = step;
      if (node->dependents.empty()) last.push_back(step);
    }
    return last.empty() ? before : last;
  }

  std::vector<Step>& all() { return steps_; }

 private:
  // Every node behind what it depends on; otherwise in the order of creation.
  static std::vector<const GraphNode*> in_order(const Graph& graph) {
    std::unordered_map<const GraphNode*, size_t> missing;
    std::vector<const GraphNode*> order;
    order.reserve(graph.nodes.size());
    for (const auto& node : graph.nodes) {
      missing[node.get()] = node->dependencies.size();
      if (node->dependencies.empty()) order.push_back(node.get());
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (const GraphEdge& edge : order[i]->dependents) {
        if (--missing[edge.node] == 0) order.push_back(edge.node);
      }
    }
    return order;
  }

  std::vector<Step> steps_;
};

bool waits(const GraphNode& node) {
  if (std::holds_alternative<WaitWork>(node.content.work)) return true;
  const auto* memops = std::get_if<MemOpWork>(&node.content.work);
  return memops != nullptr &&
         std::any_of(memops->operations.begin(), memops->operations.end(), [](const auto& op) {
           return op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                  op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
         });
}

OpList lower_node(Driver& driver, const GraphNode& node) {
  OpList ops;
  const NodeContent& content = node.content;
  if (!node.enabled || content.child != nullptr) return ops;
  Op op;
  // Which version of an event is meant is known only at a launch (graph_launch.cc).
  if (const auto* record = std::get_if<RecordWork>(&content.work)) {
    op.kind = OpKind::kRecord;
    op.event = record->event;
    ops.push_back(std::move(op));
  } else if (const auto* wait = std::get_if<WaitWork>(&content.work)) {
    op.kind = OpKind::kWaitEvent;
    op.event = wait->event;
    ops.push_back(std::move(op));
  } else if (const auto* host = std::get_if<HostWork>(&content.work)) {
    op.kind = OpKind::kHost;
    op.action = std::make_shared<Action>([work = *host] { work.function(work.data); });
    ops.push_back(std::move(op));
  } else if (!std::holds_alternative<EmptyWork>(content.work)) {
    lower_work(driver, *content.context, content.work, ops);
    if (std::holds_alternative<KernelWork>(content.work)) {
      for (Op& kernel : ops) kernel.cost_ns += driver.shared().launch_ns;
    }
  }
  return ops;
}

// How long kernels take that start in this order whenever they fit, and what each ends at.
struct Packing {
  uint64_t makespan_ns = 0;
  uint16_t peak_width = 0;
  std::vector<uint64_t> end_ns;
};

Packing pack(const OpList& kernels) {
  Packing packing;
  packing.end_ns.resize(kernels.size(), 0);
  std::vector<size_t> waiting(kernels.size());
  for (size_t i = 0; i < waiting.size(); ++i) waiting[i] = i;
  std::vector<size_t> running;
  uint32_t filled = 0;
  uint64_t now = 0;
  while (!waiting.empty() || !running.empty()) {
    // The same rule as the engine's: a kernel too wide for anything beside it runs alone.
    std::erase_if(waiting, [&](size_t i) {
      if (filled != 0 && filled + kernels[i].width > 1000) return false;
      filled += kernels[i].width;
      packing.end_ns[i] = now + kernels[i].cost_ns;
      running.push_back(i);
      return true;
    });
    packing.peak_width =
        std::max(packing.peak_width, static_cast<uint16_t>(std::min<uint32_t>(filled, 1000)));
    uint64_t next = packing.end_ns[running.front()];
    for (const size_t i : running) next = std::min(next, packing.end_ns[i]);
    now = next;
    std::erase_if(running, [&](size_t i) {
      if (packing.end_ns[i] > now) return false;
      filled -= kernels[i].width;
      return true;
    });
  }
  packing.makespan_ns = now;
  return packing;
}

// Kernels that may run side by side, as one operation whose effects come in the order of their
// ends.
Op merge_kernels(OpList&& kernels) {
  if (kernels.size() == 1) return std::move(kernels.front());
  const Packing packing = pack(kernels);
  std::vector<size_t> order(kernels.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(packing.end_ns[a], a) < std::pair(packing.end_ns[b], b);
  });
  std::vector<std::shared_ptr<Action>> actions;
  for (const size_t i : order) {
    if (kernels[i].action != nullptr) actions.push_back(kernels[i].action);
  }
  Op op;
  op.kind = OpKind::kKernel;
  op.cost_ns = packing.makespan_ns;
  op.width = packing.peak_width;
  if (!actions.empty()) {
    op.action = std::make_shared<Action>([actions = std::move(actions)] {
      for (const auto& action : actions) (*action)();
    });
  }
  return op;
}

void append(OpList& to, OpList&& from) {
  for (Op& op : from) to.push_back(std::move(op));
}

// One round: what is instant first, then kernels, copies and at last the program's functions.
void lower_round(Driver& driver, const std::vector<const GraphNode*>& round, OpList& ops) {
  OpList kernels;
  OpList transfers;
  OpList functions;
  for (const GraphNode* node : round) {
    OpList lowered = lower_node(driver, *node);
    if (lowered.empty()) continue;
    switch (lowered.front().kind) {
      case OpKind::kKernel:
        append(kernels, std::move(lowered));
        break;
      case OpKind::kTransfer:
        append(transfers, std::move(lowered));
        break;
      case OpKind::kHost:
        append(functions, std::move(lowered));
        break;
      default:
        append(ops, std::move(lowered));
    }
  }
  if (!kernels.empty()) ops.push_back(merge_kernels(std::move(kernels)));
  append(ops, std::move(transfers));
  append(ops, std::move(functions));
}

}  // namespace

void lower_graph(Driver& driver, GraphExec& exec) {
  // Copies are resolved to addresses here, also those of memory that the graph itself allocates.
  const PromisedMemory promised(driver);
  Steps flat;
  flat.add(*exec.graph, {});
  std::vector<Step>& steps = flat.all();

  auto ops = std::make_shared<OpList>();
  std::vector<size_t> ready;
  std::vector<size_t> waiting;
  const auto classify = [&](size_t step) {
    (waits(*steps[step].node) ? waiting : ready).push_back(step);
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].missing == 0) classify(i);
  }
  while (!ready.empty() || !waiting.empty()) {
    std::vector<size_t> round;
    if (!ready.empty()) {
      round.swap(ready);
    } else {
      round.push_back(waiting.front());
      waiting.erase(waiting.begin());
    }
    std::sort(round.begin(), round.end());
    std::vector<const GraphNode*> nodes;
    nodes.reserve(round.size());
    for (const size_t step : round) nodes.push_back(steps[step].node);
    lower_round(driver, nodes, *ops);
    for (const size_t step : round) {
      for (const size_t follower : steps[step].followers) {
        if (--steps[follower].missing == 0) classify(follower);
      }
    }
  }

  exec.cost_ns = 0;
  exec.has_events = false;
  for (const Op& op : *ops) {
    exec.cost_ns += op.cost_ns;
    exec.has_events =
        exec.has_events || op.kind == OpKind::kRecord || op.kind == OpKind::kWaitEvent;
  }
  exec.kernels = 0;
  for (const Step& step : steps) {
    if (step.node->enabled && std::holds_alternative<KernelWork>(step.node->content.work)) {
      ++exec.kernels;
    }
  }
  exec.list = std::move(ops);
  exec.stale = false;
}

}  // namespace divvy::simgpu
