// Executable graphs: instantiating, launching and destroying them.
#include <string.h>

#include <algorithm>

#include "simgpu/capture.h"
#include "simgpu/graph.h"
#include "simgpu/graph_memory.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kKnownFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// What went wrong, in the words of cuGraphInstantiateWithParams.
struct Complaint {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  const GraphNode* node = nullptr;
};

CUresult complain(Complaint* complaint, CUgraphInstantiateResult result, const GraphNode* node,
                  CUresult error) {
  *complaint = {result, node};
  return error;
}

const GraphNode* find_circle_anywhere(const Graph& graph) {
  const GraphNode* found = find_circle(graph);
  for_each_node(graph, [&](const GraphNode& node) {
    if (found == nullptr && node.content.child != nullptr) {
      found = find_circle(*node.content.child);
    }
  });
  return found;
}

// The nodes of an executable are addressed by those they were made from, never by themselves.
void seal(Graph& graph) {
  graph.executable = true;
  for (const auto& node : graph.nodes) {
    if (node->content.child != nullptr) seal(*node->content.child);
  }
}

void collect_contexts(GraphExec& exec) {
  exec.contexts.clear();
  for_each_node(*exec.graph, [&](const GraphNode& node) {
    Context* context = node.content.context;
    if (context != nullptr) exec.contexts[context] = context->id;
  });
}

CUresult instantiate(Call& call, CUgraph handle, uint64_t flags, CUgraphExec* out,
                     Complaint* complaint) {
  Graph* graph = resolve_graph(call.driver, handle);
  constexpr uint64_t kOneOf =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if (graph == nullptr || (flags & ~kKnownFlags) != 0 || (flags & kOneOf) == kOneOf) {
    return complain(complaint, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr, CUDA_ERROR_INVALID_VALUE);
  }
  // Instantiating sets up memory, which a capture in this thread may forbid.
  if (CUresult refused = refuse_while_capturing(call.driver)) {
    return complain(complaint, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr, refused);
  }
  if (const GraphNode* node = find_circle_anywhere(*graph)) {
    return complain(complaint, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node,
                    CUDA_ERROR_INVALID_VALUE);
  }
  const bool has_memory = graph->has_memory_nodes();
  if (has_memory && graph->instance != nullptr) {
    return complain(complaint, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr, CUDA_ERROR_NOT_SUPPORTED);
  }
  Graphs& graphs = call.driver.graphs();
  auto exec = std::make_unique<GraphExec>();
  exec->id = ++graphs.last_id;
  exec->flags = flags;
  exec->graph = copy_graph(graphs, *graph, &exec->by_source);
  seal(*exec->graph);
  collect_memory(*exec);
  collect_contexts(*exec);
  if (has_memory) {
    exec->source = graph;
    graph->instance = exec.get();
  }
  lower_graph(call.driver, *exec);
  *out = handle_of(exec.get());
  graphs.execs[exec.get()] = std::move(exec);
  return CUDA_SUCCESS;
}

bool contexts_live(Driver& driver, const GraphExec& exec) {
  return std::all_of(exec.contexts.begin(), exec.contexts.end(), [&](const auto& entry) {
    return driver.live(entry.first) && entry.first->id == entry.second;
  });
}

bool last_stream_exists(Driver& driver, const GraphExec& exec) {
  return exec.last_stream != nullptr && driver.live(exec.last_context) &&
         exec.last_context->id == exec.last_context_id;
}

void let_go_of_last_stream(Driver& driver, GraphExec& exec) {
  if (last_stream_exists(driver, exec)) --exec.last_stream->references;
  exec.last_stream = nullptr;
}

// A copy of the list for one launch, with the versions that its event nodes record and wait for.
// The engine lets go of recorded events; the list itself holds those that are waited for.
std::shared_ptr<const OpList> with_versions(Driver& driver, const OpList& list) {
  auto* copy = new OpList(list);
  for (Op& op : *copy) {
    if (op.kind != OpKind::kRecord && op.kind != OpKind::kWaitEvent) continue;
    Event& event = *op.event;
    ++event.references;
    IpcEvent* ipc = event.ipc >= 0 ? &driver.shared().ipc_event[event.ipc] : nullptr;
    if (op.kind == OpKind::kRecord) {
      event.capture.reset();
      event.capture_nodes.clear();
      op.number = ipc == nullptr ? event.recorded + 1 : ipc->recorded.fetch_add(1) + 1;
      event.recorded = op.number;
    } else {
      op.number = ipc == nullptr ? event.recorded : ipc->recorded.load();
    }
  }
  return {copy, [](OpList* ended) {
            for (const Op& op : *ended) {
              if (op.kind == OpKind::kWaitEvent) unreference(*op.event);
            }
            delete ended;
          }};
}

CUresult launch(Call& call, GraphExec& exec, Stream& stream) {
  Driver& driver = call.driver;
  if (!contexts_live(driver, exec)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (CUresult refused = refuse_capturing_stream(stream)) return refused;
  if (stream.is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(driver, *stream.context)) return refused;
  }
  if (CUresult bad = take_memory(driver, exec)) return bad;
  if (exec.stale) lower_graph(driver, exec);
  Op op;
  op.kind = OpKind::kSequence;
  op.cost_ns = exec.cost_ns;
  op.list = exec.has_events ? with_versions(driver, *exec.list) : exec.list;
  driver.shared().slot[driver.slot()].gpu[driver.gpu_of(stream.context->device)].launches.fetch_add(
      exec.kernels, std::memory_order_relaxed);

  const uint64_t id = exec.id;
  if (exec.last_stream != &stream && last_stream_exists(driver, exec) &&
      exec.last_stream->completed < exec.last_count) {
    Op wait;
    wait.kind = OpKind::kWaitStream;
    wait.stream = exec.last_stream;
    wait.number = exec.last_count;
    ++exec.last_stream->references;
    driver.enqueue(call.lock, stream, std::move(wait));
  }
  driver.enqueue(call.lock, stream, std::move(op));
  // A full queue lets go of the lock, and meanwhile the program may have destroyed the executable.
  if (!driver.graphs().execs.contains(&exec) || exec.id != id) return CUDA_SUCCESS;
  if (exec.last_stream != &stream) {
    let_go_of_last_stream(driver, exec);
    exec.last_stream = &stream;
    exec.last_context = stream.context;
    exec.last_context_id = stream.context->id;
    ++stream.references;
  }
  exec.last_count = stream.submitted;
  return CUDA_SUCCESS;
}

CUresult instantiate_simply(CUgraphExec* out, CUgraph graph, uint64_t flags,
                            CUgraphNode* error_node) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  // Only cuGraphInstantiateWithParams can say where to upload to.
  if (out == nullptr || (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Complaint complaint;
  const CUresult result = instantiate(call, graph, flags, out, &complaint);
  if (error_node != nullptr) *error_node = handle_of(const_cast<GraphNode*>(complaint.node));
  return result;
}

CUresult upload(Call& call, Stream& stream) {
  // There is nothing to carry to a simulated GPU; only the rules of captures apply.
  if (CUresult refused = refuse_capturing_stream(stream)) return refused;
  if (!stream.is_legacy) return CUDA_SUCCESS;
  return refuse_legacy_while_capturing(call.driver, *stream.context);
}

CUresult instantiate_with_params(CUgraphExec* out, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS* params, bool by_thread) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Complaint complaint;
  CUresult result = CUDA_SUCCESS;
  Stream* stream = nullptr;
  if ((params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
    const CUstream handle = params->hUploadStream;
    result =
        call.driver.resolve_stream(by_thread ? per_thread(handle) : handle, call.context, &stream);
    if (result == CUDA_SUCCESS) result = upload(call, *stream);
    if (result != CUDA_SUCCESS) complaint.result = CUDA_GRAPH_INSTANTIATE_ERROR;
  }
  if (result == CUDA_SUCCESS) result = instantiate(call, graph, params->flags, out, &complaint);
  params->hErrNode_out = handle_of(const_cast<GraphNode*>(complaint.node));
  params->result_out = complaint.result;
  return result;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph,
                                                   unsigned long long flags) {
  return instantiate_simply(out, graph, flags, nullptr);
}
SIMGPU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph,
                                             CUgraphNode* error_node, char* log, size_t log_size) {
  const CUresult result = instantiate_simply(out, graph, 0, error_node);
  if (log != nullptr && log_size > 0) {
    strncpy(log, result == CUDA_SUCCESS ? "" : "The graph cannot be instantiated.", log_size - 1);
    log[log_size - 1] = '\0';
  }
  return result;
}
SIMGPU_EXPORT CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node,
                                          char* log, size_t log_size) {
  return cuGraphInstantiate_v2(out, graph, error_node, log, log_size);
}
SIMGPU_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with_params(out, graph, params, false);
}
SIMGPU_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with_params(out, graph, params, true);
}

SIMGPU_EXPORT CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  if (resolve_exec(call.driver, handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (CUresult bad = call.resolve_stream(stream_handle, &stream)) return bad;
  return upload(call, *stream);
}
SIMGPU_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphUpload(exec, per_thread(stream));
}

SIMGPU_EXPORT CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  GraphCall call;
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphExec* exec = resolve_exec(call.driver, handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (CUresult bad = call.resolve_stream(stream_handle, &stream)) return bad;
  return launch(call, *exec, *stream);
}
SIMGPU_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphLaunch(exec, per_thread(stream));
}

SIMGPU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  GraphExec* exec = resolve_exec(call.driver, handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  // What is queued keeps its own list and runs to its end.
  let_go_of_last_stream(call.driver, *exec);
  if (exec->source != nullptr) exec->source->instance = nullptr;
  if (exec->owns_addresses) forget_addresses(call.driver, *exec->graph);
  forget_graph(call.driver.graphs(), *exec->graph);
  call.driver.graphs().execs.erase(exec);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const GraphExec* exec = resolve_exec(call.driver, handle);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Uploading was a wish about the call and no property of what came of it.
  *flags = exec->flags & ~uint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
