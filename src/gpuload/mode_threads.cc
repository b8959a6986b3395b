// Many host threads at once on one context, each on its own stream or on its per-thread default
// stream: fill, copy on the device, copy back, compare.

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <thread>

#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

struct Outcome {
  uint64_t rounds = 0;
  uint64_t wrong_words = 0;
  std::exception_ptr failure;
};

void work(const Session& session, const ThreadsOptions& options, unsigned index, Outcome& outcome) {
  const DriverApi& cu = session.cu;
  session.bind();
  const uint64_t words = std::max<uint64_t>(options.bytes / 4, 1);
  const DeviceBuffer first(session, words * 4);
  const DeviceBuffer second(session, words * 4);
  std::unique_ptr<Stream> own;
  if (!options.per_thread_stream) own = std::make_unique<Stream>(session);
  CUstream stream = own ? own->get() : CU_STREAM_PER_THREAD;
  std::vector<uint32_t> host(words);
  for (uint64_t round = 0; round < options.rounds && !stop_requested(); ++round) {
    const auto value = static_cast<uint32_t>(index * 1'000'003U + round);
    const LaunchKind kind = round % 3 == 0   ? LaunchKind::kPlain
                            : round % 3 == 1 ? LaunchKind::kEx
                                             : LaunchKind::kCooperative;
    KernelLaunch fill(session, kind, session.fill32, {8, 256}, {first.get(), words, value});
    fill.launch(stream);
    CU_CALL(cu, cuMemcpyDtoDAsync_v2, second.get(), first.get(), words * 4, stream);
    CU_CALL(cu, cuMemcpyDtoHAsync_v2, host.data(), second.get(), words * 4, stream);
    CU_CALL(cu, cuStreamSynchronize, stream);
    for (const uint32_t word : host) outcome.wrong_words += word != value;
    outcome.rounds += 1;
  }
}

}  // namespace

void run_threads(const Session& session, const ThreadsOptions& options, Report& report) {
  std::deque<Outcome> outcomes(options.threads);
  std::vector<std::thread> threads;
  threads.reserve(options.threads);
  const uint64_t began = monotonic_ns();
  for (unsigned i = 0; i < options.threads; ++i) {
    threads.emplace_back([&session, &options, &outcomes, i] {
      try {
        work(session, options, i, outcomes[i]);
      } catch (...) {
        outcomes[i].failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Outcome all;
  for (const Outcome& outcome : outcomes) {
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    all.rounds += outcome.rounds;
    all.wrong_words += outcome.wrong_words;
  }
  report.set("threads", options.threads);
  report.set("per_thread_stream", options.per_thread_stream);
  report.set("bytes", options.bytes);
  report.set("rounds", all.rounds);
  report.set("wrong_words", all.wrong_words);
  report.set("correct", all.wrong_words == 0);
  report.set("wall_us", static_cast<double>(monotonic_ns() - began) / 1e3);
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
