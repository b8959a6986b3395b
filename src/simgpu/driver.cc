#include "simgpu/driver.h"

#include <string.h>

#include <algorithm>

#include "simgpu/capture.h"
#include "simgpu/config.h"
#include "simgpu/fault.h"
#include "simgpu/graph.h"
#include "simgpu/memory.h"
#include "simgpu/mps.h"

namespace divvy::simgpu {
namespace {

// Set in a child made by fork: the parent's contexts do not exist there, and the driver says so.
bool forked_after_init = false;

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

}  // namespace

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Driver& Driver::get() {
  // Never destroyed: the engine's thread and the program's exit handlers may still use it.
  static Driver* driver = new Driver();
  return *driver;
}

Driver::Driver() = default;

// CUDA_VISIBLE_DEVICES lists indices or UUIDs (a unique prefix is enough); the first one that is
// not valid ends the list.
void Driver::find_visible_devices() {
  const auto listed = process_environment()("CUDA_VISIBLE_DEVICES");
  const int count = state_->gpu_count();
  if (!listed) {
    for (int i = 0; i < count; ++i) visible_.push_back(i);
    return;
  }
  for (const std::string& part : split_commas(*listed)) {
    int found = -1;
    if (part.rfind("GPU-", 0) == 0) {
      for (int i = 0; i < count; ++i) {
        if (strncmp(state_->gpu(i).spec.uuid, part.c_str(), part.size()) == 0) found = i;
      }
    } else if (!part.empty() && part.size() < 4 &&
               part.find_first_not_of("0123456789") == std::string::npos) {
      found = std::stoi(part);
    }
    if (found < 0 || found >= count ||
        std::find(visible_.begin(), visible_.end(), found) != visible_.end()) {
      break;
    }
    visible_.push_back(found);
  }
}

CUresult Driver::init() {
  if (forked_after_init) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard<std::mutex> lock(mutex_);
  if (engine_ != nullptr) return visible_.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  if (state_ == nullptr) {
    std::string error;
    state_ = SharedState::open(&error);
    if (state_ == nullptr) {
      // The driver API has no words for this; a bad configuration must not look like a bug.
      fprintf(stderr, "simulated GPUs: %s\n", error.c_str());
      return CUDA_ERROR_NO_DEVICE;
    }
    find_visible_devices();
    primary_.resize(visible_.size());
  }
  if (visible_.empty()) return CUDA_ERROR_NO_DEVICE;
  slot_ = state_->claim_slot();
  if (slot_ < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  mps_threads_ = mps_client_threads().value_or(0);
  memory_ = new Memory();
  graphs_ = new Graphs();
  engine_ = std::make_unique<Engine>(*state_, slot_, mutex_);
  engine_->begin();
  pthread_atfork(nullptr, nullptr, [] { forked_after_init = true; });
  return CUDA_SUCCESS;
}

bool Driver::charge(CUdevice device, uint64_t bytes) {
  return state_->reserve_bytes(gpu_of(device), slot_, bytes);
}

void Driver::refund(CUdevice device, uint64_t bytes) {
  state_->unreserve_bytes(gpu_of(device), slot_, bytes);
}

CUresult Driver::create_context(CUdevice device, unsigned flags, bool primary, Context** out) {
  const int gpu = gpu_of(device);
  if (state_->gpu(gpu).faults.lost.load() != 0) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (!charge(device, spec(device).context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* context = new Context();
  context->device = device;
  context->primary = primary;
  context->mps_threads = mps_threads_;
  context->flags = flags;
  context->id = next_id_++;
  context->version = 3020;
  context->ecc_epoch = state_->gpu(gpu).faults.ecc_epoch.load();
  context->timeline = std::make_unique<Timeline>(*state_, gpu);
  context->channel = context->timeline->open_channel(slot_);
  if (context->channel < 0) {
    refund(device, spec(device).context_bytes);
    delete context;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8'650'752;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8u << 20;
  context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->legacy = std::make_unique<Stream>();
  context->legacy->context = context;
  context->legacy->is_legacy = true;
  context->legacy->id = 1;
  context->streams.push_back(context->legacy.get());
  contexts_.insert(context);
  engine_->add_context(context);
  state_->shared().slot[slot_].gpu[gpu].contexts.fetch_add(1);
  *out = context;
  return CUDA_SUCCESS;
}

void Driver::destroy_context(std::unique_lock<std::mutex>& lock, Context* context) {
  for (Stream* stream : context->streams) forget_captured_stream(*stream);
  // A context that failed has nothing left to wait for.
  if (context->sticky == CUDA_SUCCESS) synchronize(lock, *context);
  engine_->remove_context(context);
  free_context_memory(*this, *context);
  for (auto it = events_.begin(); it != events_.end();) {
    Event* event = const_cast<Event*>(*it);
    if (event->context == context) {
      it = events_.erase(it);
      release_ipc_event(*this, *event);
      event->context = nullptr;
      event->destroyed = true;
      if (event->references == 0) delete event;
    } else {
      ++it;
    }
  }
  for (Stream* stream : context->streams) {
    streams_.erase(stream);
    if (stream != context->legacy.get()) delete stream;
  }
  context->timeline->close_channel(context->channel, engine_->now());
  refund(context->device, spec(context->device).context_bytes);
  state_->shared().slot[slot_].gpu[gpu_of(context->device)].contexts.fetch_sub(1);
  contexts_.erase(context);
  delete context;
}

Stream* Driver::create_stream(Context& context, unsigned flags, int priority) {
  auto* stream = new Stream();
  stream->context = &context;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = ++next_id_;
  stream->position_ns = 0;
  streams_.insert(stream);
  context.streams.push_back(stream);
  return stream;
}

void Driver::destroy_stream(Stream& stream) {
  streams_.erase(&stream);
  // What is queued still runs; the engine frees the stream when it is empty.
  stream.destroyed = true;
  engine_->advance();
}

CUresult Driver::resolve_stream(CUstream handle, Context* context, Stream** out) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 1) {
    *out = context->legacy.get();
    return CUDA_SUCCESS;
  }
  if (number == 2) {
    Stream*& own = context->per_thread[std::this_thread::get_id()];
    if (own == nullptr) own = create_stream(*context, 0, 0);
    *out = own;
    return CUDA_SUCCESS;
  }
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (!streams_.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
  *out = stream;
  return CUDA_SUCCESS;
}

Event* Driver::create_event(Context& context, unsigned flags) {
  auto* event = new Event();
  event->context = &context;
  event->flags = flags;
  events_.insert(event);
  return event;
}

void Driver::destroy_event(Event& event) {
  events_.erase(&event);
  event.destroyed = true;
  if (event.references == 0) delete &event;
}

Event* Driver::resolve_event(CUevent handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return events_.contains(event) ? event : nullptr;
}

void Driver::enqueue(std::unique_lock<std::mutex>& lock, Stream& stream, Op&& op) {
  const auto follow = [&](Stream& other, uint64_t count) {
    Op wait;
    wait.kind = OpKind::kWaitStream;
    wait.stream = &other;
    wait.number = count;
    ++other.references;
    engine_->submit(lock, stream, std::move(wait));
  };
  Context& context = *stream.context;
  if (stream.is_legacy) {
    for (size_t i = 0; i < context.streams.size(); ++i) {
      Stream& other = *context.streams[i];
      if (&other == &stream || (other.flags & CU_STREAM_NON_BLOCKING) != 0) continue;
      if (other.completed < other.submitted) follow(other, other.submitted);
    }
  } else if ((stream.flags & CU_STREAM_NON_BLOCKING) == 0) {
    Stream& legacy = *context.legacy;
    if (legacy.submitted > stream.legacy_seen && legacy.completed < legacy.submitted) {
      stream.legacy_seen = legacy.submitted;
      follow(legacy, legacy.submitted);
    }
  }
  engine_->submit(lock, stream, std::move(op));
}

void Driver::synchronize(std::unique_lock<std::mutex>& lock, Stream& stream) {
  const uint64_t target = stream.submitted;
  if (stream.completed >= target) {
    trim_pools_after_wait(*this);
    return;
  }
  // Kept alive while we sleep, should another thread destroy it meanwhile.
  ++stream.references;
  engine_->wait_for(
      lock, [&] { return stream.completed >= target || stream.context->sticky != CUDA_SUCCESS; });
  --stream.references;
  trim_pools_after_wait(*this);
}

void Driver::synchronize(std::unique_lock<std::mutex>& lock, Context& context) {
  for (size_t i = 0; i < context.streams.size(); ++i) {
    synchronize(lock, *context.streams[i]);
  }
  trim_pools_after_wait(*this);
}

CUresult fault_of(Driver& driver, std::unique_lock<std::mutex>& lock, Context& context) {
  Gpu& gpu = driver.state().gpu(driver.gpu_of(context.device));
  Faults& faults = gpu.faults;
  if (faults.hung.load(std::memory_order_relaxed) != 0) {
    // A call that does not return is what a hung GPU looks like.
    lock.unlock();
    wait_while_hung(gpu);
    lock.lock();
    if (!driver.live(&context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (faults.lost.load(std::memory_order_relaxed) != 0) context.sticky = CUDA_ERROR_UNKNOWN;
  if (faults.ecc_epoch.load(std::memory_order_relaxed) != context.ecc_epoch &&
      context.sticky == CUDA_SUCCESS) {
    context.sticky = CUDA_ERROR_ECC_UNCORRECTABLE;
  }
  return context.sticky;
}

Call::Call(Need need) : driver(Driver::get()) {
  if (Engine::in_host_function()) {
    error = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  if (forked_after_init || !driver.initialised()) {
    error = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  lock = std::unique_lock<std::mutex>(driver.mutex());
  if (need == kInit) return;
  auto& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) {
    error = CUDA_ERROR_INVALID_CONTEXT;
    return;
  }
  context = stack.back();
  if (!driver.live(context)) {
    error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return;
  }
  error = fault_of(driver, lock, *context);
}

}  // namespace divvy::simgpu
