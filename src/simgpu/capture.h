// Stream capture: turning what a program submits to streams into a graph instead of running it.
//
// The functions here are what the rest of the driver asks: before it runs something in a stream,
// waits for something, or does what a capture forbids. A capture that saw something forbidden is
// invalid from then on, and stays so until its origin stream ends it.
//
// Guarded by the driver's mutex; every function is called with it held.
#pragma once

#include <cstdint>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "simgpu/driver.h"

namespace divvy::simgpu {

struct Graph;
struct GraphNode;

struct Capture {
  uint64_t id = 0;
  Graph* graph = nullptr;    // owned by Graphs; null once the capture has ended
  Stream* origin = nullptr;  // null when the program destroyed it
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;  // that began it
  bool invalid = false;
  bool ended = false;
  std::unordered_set<Stream*> streams;  // that take part
  // What destroyed streams left unjoined.
  std::vector<CUgraphNode> orphans;
  // Edge data of the streams' tails, where a program gave any.
  std::unordered_map<const Stream*, std::vector<CUgraphEdgeData>> tail_data;
};

// cuEventRecord in a stream that is being captured. With CU_EVENT_RECORD_EXTERNAL it becomes a
// node.
CUresult capture_record_event(Call& call, Stream& stream, Event& event, unsigned flags = 0);
// cuStreamWaitEvent where the stream or the event takes part in a capture. With
// CU_EVENT_WAIT_EXTERNAL it becomes a node.
CUresult capture_wait_event(Call& call, Stream& stream, Event& event, unsigned flags = 0);

// For calls that look at an event's completion: an event that was last recorded in a capture has
// none. Ends the validity of the capture unless `harmless`.
CUresult refuse_captured_event(Event& event, bool harmless = false);
// For calls that look at a stream's completion.
CUresult refuse_capturing_stream(Stream& stream);
// For calls that look at the completion of everything in a context (cuCtxSynchronize): refused
// while any of its streams is captured, whatever the mode.
CUresult refuse_capturing_context(Driver& driver, Context& context);

// The program destroys a stream that may take part in a capture.
void forget_captured_stream(Stream& stream);
// A node of a graph that may belong to a capture is about to go.
void forget_captured_node(Driver& driver, const GraphNode& node);

// In capture.cc, for capture_api.cc.
bool valid_mode(CUstreamCaptureMode mode);
CUstreamCaptureMode& thread_capture_mode();
void begin_capture(Driver& driver, Stream& stream, CUstreamCaptureMode mode, Graph& graph);
// Lets every stream and event go. The graph stays when `keep`, and is destroyed otherwise.
void end_capture(Driver& driver, Capture& capture, bool keep);
bool unjoined(const Capture& capture);

}  // namespace divvy::simgpu
