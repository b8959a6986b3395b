// A driver for tests of the gates: streams are lists of what was put into them, and nothing runs
// until the test says so. It notes what a real driver would answer with an error or a crash: work
// for a captured stream that is no part of the capture, and for streams that are gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "abi/cuda.h"

namespace divvy::shim {

class FakeDriver {
 public:
  // Puts its functions into g_cuda. One at a time.
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  CUcontext make_context();
  CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING);

  // The program's own, as a real driver would hand them out. Those of samples are small numbers.
  CUevent make_event();

  // What is in a stream and has not run, a word each: "gate", "hold", "passed", "done", "begin",
  // "end" (events of samples), "launch", "copy", "record", "event" (a wait for one), "value" (a
  // wait until another lane has passed a batch). The first is what the stream stands at.
  std::string queue(CUstream stream);
  // Runs all streams as far as they go.
  void run();

  // Called inside every launch, and when the driver is asked whether a stream is captured.
  std::function<void()> during_launch;
  std::function<void()> when_asked_for_capture;
  std::function<void()> during_destroy;
  bool refuse_memory_operations = false;
  bool refuse_destroy = false;
  float sample_ms = 0.02F;
  float event_ms = 0;  // between two events with nothing in between
  // Whether something went where nothing may go.
  std::string misuse;

 private:
  struct Op {
    std::string what;
    CUstreamBatchMemOpParams memory{};
    CUevent event = nullptr;
    int record = 0;  // which of the event's
  };
  struct Event {
    int recorded = 0;
    int happened = 0;
  };
  struct Stream {
    unsigned flags = 0;
    CUcontext context = nullptr;
    std::vector<Op> ops;
  };
  using Key = std::pair<CUstream, uint64_t>;  // and the thread, of a per-thread stream

  static Key key_of(CUstream stream);
  void put(CUstream stream, const Op& op);
  bool waits(const Op& op);
  void fill();

  std::recursive_mutex mutex_;
  std::map<Key, Stream> streams_;
  std::map<CUevent, Event> events_;
  std::set<CUcontext> contexts_;
  std::set<CUstream> captured_;
  uintptr_t last_handle_ = 0x1000;
};

}  // namespace divvy::shim
