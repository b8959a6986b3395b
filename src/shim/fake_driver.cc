#include "shim/fake_driver.h"

#include <atomic>

#include "shim/link.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

FakeDriver* g_driver = nullptr;
constexpr const char* kSampleEvents[] = {"before", "begin", "end"};
thread_local CUcontext t_current = nullptr;
thread_local uint64_t t_number = 0;
std::atomic<uint64_t> g_threads{0};

std::string name_of(const CUstreamBatchMemOpParams& op) {
  if (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32) {
    if (op.waitValue.flags == CU_STREAM_WAIT_VALUE_AND) return "gate";
    // By its place in the lane, or in the head of the page.
    return op.waitValue.address % sizeof(wire::Lane) == offsetof(wire::Lane, passed) ? "value"
                                                                                     : "hold";
  }
  const uint64_t field = op.writeValue.address % sizeof(wire::Lane);
  return field == offsetof(wire::Lane, passed) ? "passed" : "done";
}

bool waits_for_value(const CUstreamBatchMemOpParams& op) {
  if (op.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32) return false;
  const uint32_t seen = reinterpret_cast<std::atomic<uint32_t>*>(op.waitValue.address)->load();
  if (op.waitValue.flags == CU_STREAM_WAIT_VALUE_AND) return (seen & op.waitValue.value) == 0;
  return static_cast<int32_t>(seen - op.waitValue.value) < 0;
}

}  // namespace

FakeDriver::FakeDriver() {
  g_driver = this;
  fill();
}

FakeDriver::~FakeDriver() { g_driver = nullptr; }

CUcontext FakeDriver::make_context() {
  const std::lock_guard lock(mutex_);
  auto* context = reinterpret_cast<CUcontext>(last_handle_ += 0x10);
  contexts_.insert(context);
  t_current = context;
  return context;
}

CUstream FakeDriver::make_stream(unsigned flags) {
  const std::lock_guard lock(mutex_);
  auto* stream = reinterpret_cast<CUstream>(last_handle_ += 0x10);
  streams_[{stream, 0}] = {flags, t_current, {}};
  return stream;
}

CUevent FakeDriver::make_event() {
  const std::lock_guard lock(mutex_);
  auto* event = reinterpret_cast<CUevent>(last_handle_ += 0x10);
  events_[event] = {};
  return event;
}

FakeDriver::Key FakeDriver::key_of(CUstream stream) {
  if (stream == nullptr) stream = CU_STREAM_LEGACY;
  if (stream != CU_STREAM_PER_THREAD) return {stream, 0};
  if (t_number == 0) t_number = ++g_threads;
  return {stream, t_number};
}

void FakeDriver::put(CUstream stream, const Op& op) {
  const std::string& what = op.what;
  const Key key = key_of(stream);
  if (captured_.contains(key.first)) {
    if (what != "launch") misuse += what + " went into a capture. ";
    return;
  }
  if (key.first == CU_STREAM_LEGACY && !captured_.empty()) {
    misuse += what + " went into the legacy stream during a capture. ";
  }
  const bool special = key.first == CU_STREAM_LEGACY || key.first == CU_STREAM_PER_THREAD;
  if (special && !streams_.contains(key)) streams_[key] = {0, t_current, {}};
  if (!streams_.contains(key)) {
    misuse += what + " went into a stream that is gone. ";
    return;
  }
  streams_[key].ops.push_back(op);
}

std::string FakeDriver::queue(CUstream stream) {
  const std::lock_guard lock(mutex_);
  std::string words;
  for (const Op& op : streams_[key_of(stream)].ops) words += (words.empty() ? "" : " ") + op.what;
  return words;
}

bool FakeDriver::waits(const Op& op) {
  if (op.what == "event") return op.record > events_[op.event].happened;
  return waits_for_value(op.memory);
}

void FakeDriver::run() {
  const std::lock_guard lock(mutex_);
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [key, stream] : streams_) {
      size_t ran = 0;
      for (const Op& op : stream.ops) {
        if (waits(op)) break;
        if (op.what == "record") events_[op.event].happened = op.record;
        if (op.memory.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
          reinterpret_cast<std::atomic<uint32_t>*>(op.memory.writeValue.address)
              ->store(op.memory.writeValue.value);
        }
        ++ran;
      }
      stream.ops.erase(stream.ops.begin(), stream.ops.begin() + static_cast<std::ptrdiff_t>(ran));
      moved = moved || ran > 0;
    }
  }
}

void FakeDriver::fill() {
  g_cuda.cuCtxGetCurrent = [](CUcontext* context) {
    *context = t_current;
    return CUDA_SUCCESS;
  };
  g_cuda.cuCtxPushCurrent_v2 = [](CUcontext context) {
    const std::lock_guard lock(g_driver->mutex_);
    if (!g_driver->contexts_.contains(context)) {
      g_driver->misuse += "a context that is gone was pushed. ";
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    t_current = context;
    return CUDA_SUCCESS;
  };
  g_cuda.cuCtxPopCurrent_v2 = [](CUcontext*) {
    t_current = nullptr;
    return CUDA_SUCCESS;
  };
  g_cuda.cuMemHostRegister_v2 = [](void*, size_t, unsigned) { return CUDA_SUCCESS; };
  g_cuda.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* out, void* host, unsigned) {
    *out = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    const std::lock_guard lock(g_driver->mutex_);
    const auto found = g_driver->streams_.find(key_of(stream));
    if (found == g_driver->streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
    *context = found->second.context;
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamGetFlags = [](CUstream stream, unsigned* flags) {
    const std::lock_guard lock(g_driver->mutex_);
    *flags = g_driver->streams_[key_of(stream)].flags;
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamBatchMemOp_v2 = [](CUstream stream, unsigned count,
                                    CUstreamBatchMemOpParams* params, unsigned) {
    const std::lock_guard lock(g_driver->mutex_);
    if (g_driver->refuse_memory_operations) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
      g_driver->put(stream, {.what = name_of(params[i]), .memory = params[i]});
    }
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    {
      const std::lock_guard lock(g_driver->mutex_);
      *status = g_driver->captured_.contains(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                     : CU_STREAM_CAPTURE_STATUS_NONE;
    }
    if (g_driver->when_asked_for_capture) g_driver->when_asked_for_capture();
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamBeginCapture_v2 = [](CUstream stream, CUstreamCaptureMode) {
    const std::lock_guard lock(g_driver->mutex_);
    g_driver->captured_.insert(stream);
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamEndCapture = [](CUstream stream, CUgraph*) {
    const std::lock_guard lock(g_driver->mutex_);
    g_driver->captured_.erase(stream);
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamDestroy_v2 = [](CUstream stream) {
    const std::lock_guard lock(g_driver->mutex_);
    g_driver->streams_.erase(key_of(stream));
    return CUDA_SUCCESS;
  };
  g_cuda.cuCtxDestroy_v2 = [](CUcontext context) {
    {
      const std::lock_guard lock(g_driver->mutex_);
      if (g_driver->refuse_destroy) return CUDA_ERROR_INVALID_CONTEXT;
      g_driver->contexts_.erase(context);
      std::erase_if(g_driver->streams_,
                    [context](const auto& entry) { return entry.second.context == context; });
      if (t_current == context) t_current = nullptr;
    }
    if (g_driver->during_destroy) g_driver->during_destroy();
    return CUDA_SUCCESS;
  };
  const auto launched = [](CUstream stream) {
    if (g_driver->during_launch) g_driver->during_launch();
    const std::lock_guard lock(g_driver->mutex_);
    g_driver->put(stream, {.what = "launch"});
    return CUDA_SUCCESS;
  };
  static const auto launch = launched;
  g_cuda.cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream stream, void**, void**) { return launch(stream); };
  g_cuda.cuLaunchKernel_ptsz = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  unsigned, unsigned, CUstream stream, void**, void**) {
    return launch(stream == nullptr ? CU_STREAM_PER_THREAD : stream);
  };
  g_cuda.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void*, size_t, CUstream stream) {
    const std::lock_guard lock(g_driver->mutex_);
    g_driver->put(stream, {.what = "copy"});
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    const std::lock_guard lock(g_driver->mutex_);
    // An event with this handle stands for one of a captured stream.
    if (reinterpret_cast<uintptr_t>(event) == 0xca9) {
      g_driver->captured_.insert(stream);
    } else {
      g_driver->put(stream,
                    {.what = "event", .event = event, .record = g_driver->events_[event].recorded});
    }
    return CUDA_SUCCESS;
  };
  g_cuda.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  g_cuda.cuEventCreate = [](CUevent* event, unsigned) {
    static std::atomic<uintptr_t> last{0};
    // The events of a sample are made in threes.
    *event = reinterpret_cast<CUevent>(++last);
    return CUDA_SUCCESS;
  };
  g_cuda.cuEventRecord = [](CUevent event, CUstream stream) {
    const std::lock_guard lock(g_driver->mutex_);
    if (g_driver->events_.contains(event)) {
      // Into a capture it is no record that happens.
      if (g_driver->captured_.contains(stream)) return CUDA_SUCCESS;
      g_driver->put(
          stream,
          {.what = "record", .event = event, .record = ++g_driver->events_[event].recorded});
    } else {
      g_driver->put(stream, {.what = kSampleEvents[(reinterpret_cast<uintptr_t>(event) - 1) % 3]});
    }
    return CUDA_SUCCESS;
  };
  g_cuda.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
  g_cuda.cuEventQuery = [](CUevent) { return CUDA_SUCCESS; };
  g_cuda.cuEventElapsedTime = [](float* ms, CUevent begin, CUevent) {
    const bool before = reinterpret_cast<uintptr_t>(begin) % 3 == 1;
    *ms = before ? g_driver->event_ms : g_driver->sample_ms;
    return CUDA_SUCCESS;
  };
  g_cuda.cuEventElapsedTime_v2 = g_cuda.cuEventElapsedTime;
}

}  // namespace divvy::shim
