#include "simgpu/engine.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <limits>

#include "simgpu/context.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
// While work is outstanding the thread looks at least this often, so that another process that
// wants the GPU is not kept waiting by one that launched and then slept.
constexpr uint64_t kBusyTickNs = 1'000'000;
// After the last work the thread dozes a few times before it sleeps for good: a program that
// launches every few microseconds then never pays for waking it.
constexpr uint64_t kDozeNs = 250'000;
constexpr int kDozes = 8;
constexpr uint64_t kFirstPollNs = 10'000;
constexpr uint64_t kLastPollNs = 100'000;
// Under the manual clock whoever moves it wakes all to look at memory; this is for tests in which
// nobody does.
constexpr uint64_t kManualPollNs = 5'000'000;

thread_local bool inside_host_function = false;

bool is_manual(const Shared& shared) {
  return shared.clock_mode == static_cast<uint32_t>(ClockMode::kManual);
}

}  // namespace

bool Engine::in_host_function() { return inside_host_function; }

void Engine::remove_context(Context* context) { std::erase(contexts_, context); }

void Engine::start_thread() {
  if (thread_started_) return;
  thread_started_ = true;
  thread_ = std::thread([this] { thread_main(); });
}

void Engine::begin() {
  if (!is_manual(shared())) return;
  // From now on whoever moves the clock waits for this process.
  slot().settled_at_ns.store(0);
  start_thread();
}

void Engine::wake() {
  sleeping_ = false;
  slot().wake.fetch_add(1);
  futex_wake_all(slot().wake);
}

void Engine::submit(std::unique_lock<std::mutex>& lock, Stream& stream, Op&& op) {
  if (!thread_started_) start_thread();
  if (stream.queue.full()) {
    wait_for(lock, [&stream] { return !stream.queue.full(); });
  }
  const bool visible = op.visible();
  const bool kernel = op.kind == OpKind::kKernel;
  op.enqueued_at_ns = now();
  op.unmet = op.kind == OpKind::kWaitValue && !value_reached(op);
  stream.prefix_ns += op.cost_ns;
  op.prefix_ns = stream.prefix_ns;
  if (visible) stream.visible_prefix_ns.push_back(op.prefix_ns);
  Context& context = *stream.context;
  if ((context.turn.owning || context.turn.waiting) && op.kind == OpKind::kKernel) {
    // The timeline goes by the work it knows of, so new work is made known here.
    context.timeline->channel(context.channel)
        .work_ns.fetch_add(op.cost_ns, std::memory_order_relaxed);
  }
  stream.queue.push() = std::move(op);
  ++stream.submitted;
  // Under the manual clock nothing happens behind one's back: the wish for the GPU is known at
  // once. For a kernel the thread need not be woken, which would cost a switch for every launch;
  // what waits for memory has to be polled by it.
  const bool manual = is_manual(shared());
  if (sleeping_ || visible || (manual && !kernel)) {
    wake();
  } else if (manual) {
    advance();
  }
}

Op* Engine::front(Stream& stream) {
  for (;;) {
    if (stream.queue.empty()) return nullptr;
    Op& op = stream.queue.front();
    if (op.kind != OpKind::kSequence) return &op;
    if (!stream.has_expanded) {
      if (stream.sequence_cursor == op.list->size()) {
        complete(stream, op, std::max(stream.position_ns, op.enqueued_at_ns));
        continue;
      }
      if (stream.sequence_cursor == 0) stream.sequence_left_ns = op.cost_ns;
      stream.expanded = (*op.list)[stream.sequence_cursor];
      stream.expanded.enqueued_at_ns = op.enqueued_at_ns;
      stream.has_expanded = true;
    }
    return &stream.expanded;
  }
}

void Engine::complete(Stream& stream, Op& op, uint64_t at_ns) {
  ++completed_;
  if (op.kind != OpKind::kHost && op.action) (*op.action)();
  stream.position_ns = at_ns;
  stream.running = false;
  stream.poll_ns = 0;
  if (&op == &stream.expanded) {
    stream.sequence_left_ns -= std::min(op.cost_ns, stream.sequence_left_ns);
    stream.expanded.action.reset();
    stream.has_expanded = false;
    ++stream.sequence_cursor;
    return;
  }
  if (op.visible() && !stream.visible_prefix_ns.empty()) stream.visible_prefix_ns.pop_front();
  stream.sequence_cursor = 0;
  stream.queue.pop();
  ++stream.completed;
}

bool Engine::value_reached(const Op& op) const {
  uint64_t seen;
  uint64_t mask;
  if (op.wide) {
    seen = __atomic_load_n(reinterpret_cast<const uint64_t*>(op.address), __ATOMIC_ACQUIRE);
    mask = ~uint64_t{0};
  } else {
    seen = __atomic_load_n(reinterpret_cast<const uint32_t*>(op.address), __ATOMIC_ACQUIRE);
    mask = 0xffffffffu;
  }
  switch (op.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      // The comparison is cyclic: the difference as a signed number.
      return op.wide ? static_cast<int64_t>(seen - op.number) >= 0
                     : static_cast<int32_t>(static_cast<uint32_t>(seen) -
                                            static_cast<uint32_t>(op.number)) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return (seen & mask) == (op.number & mask);
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & op.number & mask) != 0;
    default:
      return (~(seen | op.number) & mask) != 0;  // NOR
  }
}

// Streams of the context that stand at the value go on from then, whenever they are looked at.
void Engine::value_written(Context& context, uint64_t address, uint64_t at_ns) {
  for (Stream* stream : context.streams) {
    Op* op = front(*stream);
    if (op == nullptr || op->kind != OpKind::kWaitValue || op->address != address) continue;
    if (op->met_at_ns == 0 && value_reached(*op)) op->met_at_ns = at_ns;
  }
}

// Everything at the front of a stream that needs no turn on the compute timeline.
bool Engine::step_instant(Stream& stream, uint64_t now) {
  bool progress = false;
  for (Op* op = front(stream); op != nullptr; op = front(stream)) {
    if (stream.host_running) break;
    const uint64_t start = std::max(op->enqueued_at_ns, stream.position_ns);
    if (start > now) break;
    uint64_t end = start;
    switch (op->kind) {
      case OpKind::kKernel:
      case OpKind::kSequence:
        return progress;
      case OpKind::kHost:
        host_due_ = true;
        return progress;
      case OpKind::kTransfer:
        end = start + op->cost_ns;
        if (end > now) return progress;
        break;
      case OpKind::kRecord: {
        Event& event = *op->event;
        event.completed = std::max(event.completed, op->number);
        event.completed_at_ns = start;
        if (event.ipc >= 0) {
          IpcEvent& ipc = state_.shared().ipc_event[event.ipc];
          ipc.completed_at_ns = start;
          ipc.completed.store(op->number);
        }
        unreference(event);
        break;
      }
      case OpKind::kWaitEvent: {
        Event& event = *op->event;
        uint64_t done = event.completed;
        uint64_t at = event.completed_at_ns;
        if (event.ipc >= 0) {
          const IpcEvent& ipc = state_.shared().ipc_event[event.ipc];
          done = ipc.completed.load();
          at = ipc.completed_at_ns.load();
        }
        if (done < op->number) return progress;
        end = std::max(start, std::min(at, now));
        // A graph's wait node does not hold the event; a queued wait does.
        if (op != &stream.expanded) unreference(event);
        break;
      }
      case OpKind::kWaitStream:
        if (op->stream->completed < op->number) return progress;
        end = std::max(start, std::min(op->stream->position_ns, now));
        --op->stream->references;
        break;
      case OpKind::kWaitValue:
        if (!value_reached(*op)) {
          op->waited = true;
          return progress;
        }
        // A value that was not there when last looked at arrived just now, unless a stream wrote
        // it. Queueing it was a look, if the stream had nothing else to do then.
        if (op->met_at_ns != 0) {
          end = std::max(start, std::min(op->met_at_ns, now));
        } else {
          end = op->waited || (op->unmet && start == op->enqueued_at_ns) ? now : start;
        }
        break;
      case OpKind::kWriteValue:
        if (op->wide) {
          __atomic_store_n(reinterpret_cast<uint64_t*>(op->address), op->number, __ATOMIC_RELEASE);
        } else {
          __atomic_store_n(reinterpret_cast<uint32_t*>(op->address),
                           static_cast<uint32_t>(op->number), __ATOMIC_RELEASE);
        }
        value_written(*stream.context, op->address, start);
        break;
      case OpKind::kAction:
        break;
    }
    complete(stream, *op, end);
    progress = true;
  }
  return progress;
}

// What is left of the operation (or the whole sequence) at the front.
uint64_t Engine::front_work(Stream& stream) const {
  const Op& op = stream.queue.front();
  if (op.kind == OpKind::kSequence) return stream.sequence_left_ns;
  return stream.running ? stream.remaining_ns : op.cost_ns;
}

// What the context has to run, as far as it is ready: streams whose front is a kernel.
uint64_t Engine::known_work(Context& context) {
  uint64_t work = 0;
  for (Stream* stream : context.streams) {
    const Op* op = front(*stream);
    if (op == nullptr || op->kind != OpKind::kKernel) continue;
    // A kernel that costs nothing still needs its turn.
    work += std::max<uint64_t>(
        front_work(*stream) + stream->prefix_ns - stream->queue.front().prefix_ns, 1);
  }
  return work;
}

// How long a kernel takes in a context whose part of the GPU may be small.
uint64_t Engine::duration(const Context& context, uint64_t cost_ns) {
  if (context.mps_threads == 0) return cost_ns;
  return (cost_ns * 100 + context.mps_threads - 1) / context.mps_threads;
}

// Fills a window with the kernels that are ready in it, in order of time.
Timeline::Standing Engine::fill_window(Context& context, const GpuWindow& window) {
  uint64_t t = std::max(window.start_ns, context.cursor_ns);
  uint64_t busy_from = kNever;
  const auto account = [&](uint64_t until) {
    if (busy_from != kNever) {
      // A part of the GPU that is busy counts as that part of the time.
      const uint64_t busy = until - busy_from;
      const uint64_t used = context.mps_threads == 0 ? busy : busy * context.mps_threads / 100;
      context.timeline->account(context.channel, slot_, busy_from, busy_from + used);
    }
    busy_from = kNever;
  };
  // A kernel that costs nothing may run at the very end, hence the second condition.
  for (bool moved = true; t < window.end_ns || moved;) {
    moved = false;
    uint32_t filled = 0;
    uint64_t next = kNever;
    for (Stream* stream : context.streams) {
      if (stream->running) filled += front(*stream)->width;
    }
    for (Stream* stream : context.streams) {
      Op* op = stream->running ? nullptr : front(*stream);
      if (op == nullptr || op->kind != OpKind::kKernel) continue;
      const uint64_t ready = std::max(op->enqueued_at_ns, stream->position_ns);
      if (ready > t) {
        next = std::min(next, ready);
      } else if (filled == 0 || filled + op->width <= 1000) {
        stream->running = true;
        stream->remaining_ns = duration(context, op->cost_ns);
        filled += op->width;
      }
    }
    bool running = false;
    for (Stream* stream : context.streams) {
      if (!stream->running) continue;
      running = true;
      next = std::min(next, t + stream->remaining_ns);
    }
    if (next == kNever) break;
    const uint64_t stop = std::min(next, std::max(window.end_ns, t));
    if (running && busy_from == kNever) busy_from = t;
    if (!running) account(t);
    for (Stream* stream : context.streams) {
      if (!stream->running) continue;
      stream->remaining_ns -= std::min(stop - t, stream->remaining_ns);
      if (stream->remaining_ns == 0) {
        complete(*stream, *front(*stream), stop);
        step_instant(*stream, stop);
        moved = true;
      }
    }
    t = stop;
  }
  account(t);
  context.cursor_ns = std::max(context.cursor_ns, t);
  return {context.cursor_ns, known_work(context)};
}

// Gives a context's kernels their turn. True when something moved.
bool Engine::run_kernels(Context& context, uint64_t now) {
  std::optional<uint64_t> ready;
  for (Stream* stream : context.streams) {
    const Op* op = front(*stream);
    if (op == nullptr || op->kind != OpKind::kKernel) continue;
    const uint64_t since = std::max(op->enqueued_at_ns, stream->position_ns);
    const uint64_t at = stream->running ? std::max(since, context.cursor_ns) : since;
    if (at <= now) ready = std::min(ready.value_or(kNever), at);
  }
  // Nothing to run and nothing to give back.
  if (!ready && !context.turn.owning && !context.turn.waiting) return false;
  bool moved = false;
  if (context.mps_threads != 0) {
    // Its part of the GPU is always its own: one window without end.
    const uint64_t before = context.cursor_ns;
    const uint64_t done = completed_;
    context.turn.owning = fill_window(context, {before, now}).work_ns > 0;
    return context.cursor_ns != before || completed_ != done;
  }
  const uint64_t work = ready ? known_work(context) : 0;
  context.turn =
      context.timeline->take_turn(context.channel, ready, work, now, [&](const GpuWindow& window) {
        const uint64_t before = context.cursor_ns;
        const uint64_t done = completed_;
        const Timeline::Standing standing = fill_window(context, window);
        moved = moved || context.cursor_ns != before || completed_ != done;
        return standing;
      });
  return moved;
}

void Engine::free_forgotten_streams(Context& context) {
  std::erase_if(context.streams, [](Stream* stream) {
    if (!stream->forgotten()) return false;
    delete stream;
    return true;
  });
}

bool Engine::advance_context(Context& context, uint64_t now) {
  bool progress = false;
  const auto step_all = [&] {
    for (Stream* stream : context.streams) {
      if (!stream->queue.empty()) progress = step_instant(*stream, now) || progress;
    }
  };
  step_all();
  if (run_kernels(context, now)) progress = true;
  step_all();
  free_forgotten_streams(context);
  return progress;
}

bool Engine::settle(uint64_t now) {
  bool any = false;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < contexts_.size(); ++i) {
      progress = advance_context(*contexts_[i], now) || progress;
    }
    any = any || progress;
  }
  return any;
}

void Engine::advance() {
  const bool progress = settle(now());
  if (host_due_ && thread_started_) wake();
  if (progress && waiters_ > 0) wake();
}

void Engine::wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                      bool polling) {
  ++waiters_;
  slot().callers_waiting.fetch_add(1);
  for (;;) {
    const uint32_t seen = slot().wake.load();
    const uint64_t present = now();
    settle(present);
    if (host_due_) wake();
    if (done()) break;
    NextLook look = next_look(present);
    if (polling) {
      look.polling = true;
      look.at_ns = std::min(look.at_ns.value_or(kNever), present + kLastPollNs);
    }
    slot().caller_seen_wake.store(seen);
    sleep_until(lock, look, seen);
  }
  --waiters_;
  slot().callers_waiting.fetch_sub(1);
}

Engine::NextLook Engine::next_look(uint64_t now) {
  NextLook look;
  uint64_t earliest = kNever;
  for (Context* context : contexts_) {
    if (context->turn.waiting) {
      earliest = std::min(earliest, std::max(context->turn.turn_at_ns, now + 1'000));
    }
    for (Stream* stream : context->streams) {
      const Op* op = front(*stream);
      if (op == nullptr || stream->host_running) continue;
      uint64_t at = now + kBusyTickNs;
      if (op->kind == OpKind::kTransfer) {
        at = std::max(op->enqueued_at_ns, stream->position_ns) + op->cost_ns;
      } else if (op->kind == OpKind::kWaitValue ||
                 (op->kind == OpKind::kWaitEvent && op->event->ipc >= 0)) {
        stream->poll_ns =
            std::clamp(stream->poll_ns + stream->poll_ns / 2, kFirstPollNs, kLastPollNs);
        at = now + stream->poll_ns;
        look.polling = true;
      } else if (op->kind == OpKind::kKernel && context->turn.owning) {
        const uint64_t head = stream->queue.front().prefix_ns;
        const uint64_t target = stream->visible_prefix_ns.empty()
                                    ? stream->prefix_ns
                                    : stream->visible_prefix_ns.front();
        at = now + front_work(*stream) + duration(*context, target > head ? target - head : 0);
      }
      earliest = std::min({earliest, at, now + kBusyTickNs});
    }
  }
  if (earliest != kNever) look.at_ns = earliest;
  return look;
}

// Lets go of the lock until `look` is due or somebody wakes this process.
void Engine::sleep_until(std::unique_lock<std::mutex>& lock, const NextLook& look, uint32_t seen) {
  std::optional<uint64_t> deadline = look.at_ns;
  if (is_manual(shared())) {
    // The manual clock wakes us when it moves; memory is polled in real time all the same.
    deadline.reset();
    if (look.polling) {
      timespec ts;
      clock_gettime(CLOCK_MONOTONIC, &ts);
      deadline = static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u +
                 static_cast<uint64_t>(ts.tv_nsec) + kManualPollNs;
    }
  }
  lock.unlock();
  futex_wait(slot().wake, seen, deadline ? &*deadline : nullptr);
  lock.lock();
}

// Calls the program's functions that are due. Only the engine's thread does this, and without the
// lock, since they may take any lock of the program's.
bool Engine::run_host_functions(std::unique_lock<std::mutex>& lock) {
  host_due_ = false;
  bool ran = false;
  for (size_t c = 0; c < contexts_.size(); ++c) {
    for (size_t s = 0; c < contexts_.size() && s < contexts_[c]->streams.size(); ++s) {
      Stream& stream = *contexts_[c]->streams[s];
      Op* op = front(stream);
      if (op == nullptr || op->kind != OpKind::kHost || stream.host_running) continue;
      stream.host_running = true;
      const std::shared_ptr<Action> action = op->action;
      lock.unlock();
      inside_host_function = true;
      (*action)();
      inside_host_function = false;
      lock.lock();
      stream.host_running = false;
      complete(stream, *front(stream), now());
      ran = true;
    }
  }
  return ran;
}

void Engine::thread_main() {
  prctl(PR_SET_NAME, "simgpu");
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  std::unique_lock<std::mutex> lock(mutex_);
  int dozes = 0;
  for (;;) {
    const uint32_t seen = slot().wake.load();
    const uint64_t present = now();
    bool progress = settle(present);
    if (host_due_) progress = run_host_functions(lock) || progress;
    if (progress && waiters_ > 0) wake();
    if (host_due_ || slot().wake.load() != seen) continue;
    NextLook look = next_look(present);
    if (look.at_ns) {
      dozes = 0;
    } else if (!is_manual(shared()) && dozes < kDozes) {
      ++dozes;
      look.at_ns = present + kDozeNs;
    } else {
      sleeping_ = true;
    }
    if (is_manual(shared())) {
      slot().settled_at_ns.store(present);
      slot().seen_wake.store(seen);
      futex_wake_all(slot().seen_wake);
    }
    sleep_until(lock, look, seen);
    sleeping_ = false;
  }
}

}  // namespace divvy::simgpu
