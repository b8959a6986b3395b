#include "simgpu/capture.h"

#include <algorithm>

#include "simgpu/graph.h"
#include "simgpu/graph_memory.h"

namespace divvy::simgpu {
namespace {

CUgraphNodeType type_of(const Work& work) {
  struct Type {
    CUgraphNodeType operator()(const EmptyWork&) const { return CU_GRAPH_NODE_TYPE_EMPTY; }
    CUgraphNodeType operator()(const KernelWork&) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
    CUgraphNodeType operator()(const CopyWork&) const { return CU_GRAPH_NODE_TYPE_MEMCPY; }
    CUgraphNodeType operator()(const MemsetWork&) const { return CU_GRAPH_NODE_TYPE_MEMSET; }
    CUgraphNodeType operator()(const HostWork&) const { return CU_GRAPH_NODE_TYPE_HOST; }
    CUgraphNodeType operator()(const MemOpWork&) const { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
    CUgraphNodeType operator()(const RecordWork&) const { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
    CUgraphNodeType operator()(const WaitWork&) const { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
    CUgraphNodeType operator()(const AllocWork&) const { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
    CUgraphNodeType operator()(const FreeWork&) const { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  };
  return std::visit(Type{}, work);
}

// Adds a node behind everything the stream has captured so far.
CUresult capture_content(Call& call, Stream& stream, NodeContent&& content) {
  Capture& capture = *stream.capture;
  Graphs& graphs = call.driver.graphs();
  std::vector<GraphEdge> edges;
  const auto data = capture.tail_data.find(&stream);
  for (size_t i = 0; i < stream.capture_tail.size(); ++i) {
    const bool given = data != capture.tail_data.end() && i < data->second.size();
    edges.push_back({reinterpret_cast<GraphNode*>(stream.capture_tail[i]),
                     given ? data->second[i] : CUgraphEdgeData{}});
  }
  GraphNode* node = add_node(graphs, *capture.graph, std::move(content), edges);
  stream.capture_tail = {handle_of(node)};
  capture.tail_data.erase(&stream);
  return CUDA_SUCCESS;
}

// The stream's next operation also follows these nodes, as far as they still exist.
void follow(Driver& driver, Stream& stream, const std::vector<CUgraphNode>& nodes) {
  auto& tail = stream.capture_tail;
  for (const CUgraphNode node : nodes) {
    const GraphNode* found = resolve_node(driver, node);
    if (found == nullptr || found->graph != stream.capture->graph) continue;
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

CUresult invalidate(Capture& capture, CUresult error) {
  capture.invalid = true;
  return error;
}

// Whether the calling thread has begun a capture that forbids unsafe calls.
bool forbids_own_thread(const Capture& capture) {
  return capture.thread == std::this_thread::get_id() &&
         capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

}  // namespace

bool valid_mode(CUstreamCaptureMode mode) { return mode <= CU_STREAM_CAPTURE_MODE_RELAXED; }

CUstreamCaptureMode& thread_capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

void begin_capture(Driver& driver, Stream& stream, CUstreamCaptureMode mode, Graph& graph) {
  Graphs& graphs = driver.graphs();
  auto capture = std::make_shared<Capture>();
  capture->id = ++graphs.last_id;
  capture->graph = &graph;
  capture->origin = &stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams.insert(&stream);
  graph.being_captured = true;
  stream.capture = capture;
  stream.capture_tail.clear();
  graphs.captures.push_back(std::move(capture));
}

void end_capture(Driver& driver, Capture& capture, bool keep) {
  Graphs& graphs = driver.graphs();
  capture.ended = true;
  Graph* graph = capture.graph;
  capture.graph = nullptr;
  graph->being_captured = false;
  if (!keep) destroy_graph(driver, *graph);
  // The list holds the capture until here, and events may hold it for longer.
  const auto here = std::find_if(graphs.captures.begin(), graphs.captures.end(),
                                 [&](const auto& other) { return other.get() == &capture; });
  const std::shared_ptr<Capture> held = std::move(*here);
  graphs.captures.erase(here);
  for (Stream* stream : held->streams) {
    stream->capture.reset();
    stream->capture_tail.clear();
  }
  held->streams.clear();
}

bool unjoined(const Capture& capture) {
  std::vector<GraphNode*> joined;
  joined.reserve(capture.origin->capture_tail.size());
  for (const CUgraphNode node : capture.origin->capture_tail) {
    joined.push_back(reinterpret_cast<GraphNode*>(node));
  }
  const auto reached = ancestors(joined);
  const auto is_reached = [&](CUgraphNode node) {
    return reached.contains(reinterpret_cast<const GraphNode*>(node));
  };
  if (!std::all_of(capture.orphans.begin(), capture.orphans.end(), is_reached)) return true;
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
    return !std::all_of(stream->capture_tail.begin(), stream->capture_tail.end(), is_reached);
  });
}

CUresult capture_work(Call& call, Stream& stream, Work&& work) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (CUresult bad = check_node_work(call.driver, work)) return bad;
  if (const auto* free = std::get_if<FreeWork>(&work);
      free != nullptr && !may_free(call.driver, *capture.graph, free->address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  NodeContent content;
  content.type = type_of(work);
  if (content.type != CU_GRAPH_NODE_TYPE_HOST && content.type != CU_GRAPH_NODE_TYPE_EMPTY) {
    content.context = stream.context;
  }
  if (const auto* alloc = std::get_if<AllocWork>(&work)) {
    content.pool.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    content.pool.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    content.pool.location.id = alloc->device;
  }
  content.work = std::move(work);
  return capture_content(call, stream, std::move(content));
}

CUresult capture_record_event(Call& call, Stream& stream, Event& event, unsigned flags) {
  if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) {
    return capture_work(call, stream, RecordWork{&event});
  }
  event.capture = stream.capture;
  event.capture_nodes = stream.capture_tail;
  return CUDA_SUCCESS;
}

CUresult capture_wait_event(Call& call, Stream& stream, Event& event, unsigned flags) {
  if (stream.capture != nullptr && stream.capture->invalid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  // What was recorded in a capture that is over can never complete.
  if (event.capture != nullptr && event.capture->ended) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
    if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    return capture_work(call, stream, WaitWork{&event});
  }
  if (event.capture == nullptr) {
    if (event.recorded == 0) return CUDA_SUCCESS;
    return invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (event.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream.capture == nullptr) {
    // The legacy stream cannot be captured, and through it nothing else.
    if (stream.is_legacy) {
      return invalidate(*event.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    stream.capture = event.capture;
    stream.capture_tail.clear();
    stream.capture->streams.insert(&stream);
  } else if (stream.capture != event.capture) {
    event.capture->invalid = true;
    return invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  follow(call.driver, stream, event.capture_nodes);
  return CUDA_SUCCESS;
}

CUresult refuse_captured_event(Event& event, bool harmless) {
  if (event.capture == nullptr) return CUDA_SUCCESS;
  if (event.capture->ended) return CUDA_ERROR_INVALID_VALUE;
  if (!harmless) event.capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult refuse_capturing_stream(Stream& stream) {
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  return invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult refuse_capturing_context(Driver& driver, Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : driver.graphs().captures) {
    const bool concerned =
        std::any_of(capture->streams.begin(), capture->streams.end(),
                    [&](const Stream* stream) { return stream->context == &context; });
    if (concerned) result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult refuse_while_capturing(Driver& driver) {
  CUresult result = CUDA_SUCCESS;
  const CUstreamCaptureMode mine = thread_capture_mode();
  for (const auto& capture : driver.graphs().captures) {
    const bool own =
        (mine == CU_STREAM_CAPTURE_MODE_GLOBAL || mine == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) &&
        forbids_own_thread(*capture);
    const bool elsewhere = mine == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                           capture->thread != std::this_thread::get_id();
    if (own || elsewhere) result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult refuse_legacy_while_capturing(Driver& driver, Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : driver.graphs().captures) {
    const bool concerned =
        std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* stream) {
          return stream->context == &context && (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
        });
    if (concerned) result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  return result;
}

void forget_captured_stream(Stream& stream) {
  if (stream.capture == nullptr) return;
  const std::shared_ptr<Capture> capture = stream.capture;
  capture->streams.erase(&stream);
  capture->tail_data.erase(&stream);
  auto& orphans = capture->orphans;
  orphans.insert(orphans.end(), stream.capture_tail.begin(), stream.capture_tail.end());
  stream.capture.reset();
  stream.capture_tail.clear();
  // Nobody can end a capture whose origin is gone.
  if (capture->origin == &stream) end_capture(Driver::get(), *capture, false);
}

void forget_captured_node(Driver& driver, const GraphNode& node) {
  const auto drop = [&](std::vector<CUgraphNode>& nodes) {
    std::erase(nodes, reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(&node)));
  };
  for (const auto& capture : driver.graphs().captures) {
    if (capture->graph != node.graph) continue;
    drop(capture->orphans);
    for (Stream* stream : capture->streams) {
      drop(stream->capture_tail);
      capture->tail_data.erase(stream);
    }
  }
}

}  // namespace divvy::simgpu
