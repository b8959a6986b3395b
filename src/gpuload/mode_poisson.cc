// Requests that arrive by a Poisson process whether or not the GPU keeps up. One thread submits
// each request at its time, another waits for the ends in order; a request's latency runs from the
// moment it was due, so that a late submission and every queue count.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "gpuload/arrivals.h"
#include "gpuload/calibrate.h"
#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

struct Request {
  uint64_t due_ns;
  std::unique_ptr<Event> end;
};

// Hands submitted requests from the submitting to the waiting thread, and used events back.
class InFlight {
 public:
  void push(Request request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    changed_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }
  // False when there will be no more.
  bool pop(Request& request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !requests_.empty(); });
    if (requests_.empty()) return false;
    request = std::move(requests_.front());
    requests_.pop_front();
    return true;
  }
  void recycle(std::unique_ptr<Event> event) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(event));
  }
  std::unique_ptr<Event> spare() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return nullptr;
    auto event = std::move(spare_.back());
    spare_.pop_back();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_;
  std::vector<std::unique_ptr<Event>> spare_;
  bool closed_ = false;
};

std::vector<uint64_t> arrivals_of(const PoissonOptions& options) {
  if (!options.schedule) {
    return poisson_arrivals(options.rate, static_cast<uint64_t>(options.seconds * 1e9),
                            options.seed);
  }
  auto arrivals = poisson_arrivals(options.rate, options.schedule->end_ns(), options.seed);
  std::erase_if(arrivals, [&](uint64_t at) { return !options.schedule->works_at(at); });
  return arrivals;
}

// The requests one by one, as many as were asked for.
void report_moments(const PoissonOptions& options, const std::vector<double>& due_ms,
                    const std::vector<double>& latency_ms, Report& report) {
  const auto kept = static_cast<ptrdiff_t>(std::min<uint64_t>(options.moments, latency_ms.size()));
  report.set("due_ms", std::vector<double>(due_ms.begin(), due_ms.begin() + kept));
  report.set("latencies_ms", std::vector<double>(latency_ms.begin(), latency_ms.begin() + kept));
}

}  // namespace

void run_poisson(const Session& session, const PoissonOptions& options, Report& report) {
  const double rate = options.iterations_per_us > 0 ? options.iterations_per_us
                                                    : calibrate_iterations_per_us(session, false);
  const unsigned kernels = std::max(1U, options.kernels);
  const auto iterations = static_cast<uint64_t>(std::max(1.0, options.us * rate / kernels));
  const std::vector<uint64_t> arrivals = arrivals_of(options);
  const DeviceBuffer sink(session, 4);
  const Stream stream(session);
  KernelLaunch spin(session, options.graph ? LaunchKind::kGraph : LaunchKind::kPlain, session.spin,
                    spin_geometry(session, false), {iterations, sink.get()}, kernels);
  const unsigned launches = options.graph ? 1 : kernels;
  const unsigned event_flags =
      CU_EVENT_DISABLE_TIMING | (options.spin_wait ? 0U : CU_EVENT_BLOCKING_SYNC);

  spin.launch(stream.get());  // the first launch loads the kernel
  stream.synchronize();
  const uint64_t start_ns = start_moment(options.start);
  const uint64_t ready_ns = monotonic_ns();

  InFlight in_flight;
  std::vector<double> due_ms;
  std::vector<double> latency_ms;
  std::exception_ptr waiter_failure;
  std::thread waiter([&] {
    try {
      session.bind();
      Request request;
      while (in_flight.pop(request)) {
        request.end->synchronize();
        due_ms.push_back(static_cast<double>(request.due_ns - start_ns) / 1e6);
        latency_ms.push_back(static_cast<double>(monotonic_ns() - request.due_ns) / 1e6);
        in_flight.recycle(std::move(request.end));
      }
    } catch (...) {
      waiter_failure = std::current_exception();
    }
  });

  std::exception_ptr failure;
  std::vector<double> late_us;
  uint64_t missed = 0;
  try {
    for (const uint64_t at : arrivals) {
      const uint64_t due_ns = start_ns + at;
      if (due_ns < ready_ns) {
        ++missed;
        continue;
      }
      sleep_until(due_ns);
      if (stop_requested()) break;
      late_us.push_back(static_cast<double>(monotonic_ns() - due_ns) / 1e3);
      for (unsigned i = 0; i < launches; ++i) spin.launch(stream.get());
      auto end = in_flight.spare();
      if (end == nullptr) end = std::make_unique<Event>(session, event_flags);
      end->record(stream.get());
      in_flight.push({due_ns, std::move(end)});
    }
  } catch (...) {
    failure = std::current_exception();
  }
  in_flight.close();
  waiter.join();
  if (failure) std::rethrow_exception(failure);
  if (waiter_failure) std::rethrow_exception(waiter_failure);
  const double wall_s = static_cast<double>(monotonic_ns() - start_ns) / 1e9;

  report.set("rate", options.rate);
  report.set("us", options.us);
  report.set("kernels", kernels);
  report.set("graph", options.graph);
  report.set("seed", options.seed);
  report.set("iterations_per_us", rate);
  report.set("requests", uint64_t{latency_ms.size()});
  report.set("wall_us", wall_s * 1e6);
  report.set("requests_per_second", static_cast<double>(latency_ms.size()) / wall_s);
  if (options.moments > 0) {
    report.set("start_ns", start_ns);
    report.set("missed", missed);  // due before this process was ready
    report_moments(options, due_ms, latency_ms, report);
  }
  report.set("latency_ms", summarize(std::move(latency_ms)));
  report.set("submitted_late_us", summarize(std::move(late_us)));
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
