// A pass of the queue, by how many jobs wait: what it costs when nothing can start, when one job
// ended and another takes its place, and what a question costs.
#include <benchmark/benchmark.h>

#include <random>

#include "jobs/testing.h"

namespace {

using namespace divvy;
using namespace divvy::jobs;
using model::JobId;

// A team of fifty in three queues, on 32 nodes with 8 GPUs: about 200 jobs run.
class Team {
 public:
  explicit Team(std::uint32_t waiting) : desk_(settings(), jobs::testing::fleet(32, 8)) {
    for (std::uint32_t i = 0; i < 250; ++i) submit();
    desk_.run();
    for (std::uint32_t i = 0; i < waiting; ++i) submit();
    desk_.run();
  }

  static Settings settings() {
    Settings settings;
    settings.queues = {jobs::testing::queue("research", 120'000),
                       jobs::testing::queue("research/vision", 60'000),
                       jobs::testing::queue("product", 60'000)};
    return settings;
  }

  void submit() {
    constexpr std::array<std::uint32_t, 8> kShares{100, 250, 500, 500, 1000, 1000, 2000, 4000};
    const std::array<std::string, 3> queues{"research/vision", "product", "default"};
    model::JobSpec spec =
        jobs::testing::spec(kShares[dice_() % kShares.size()], dice_() % 10 == 0 ? 2 : 1);
    spec.queue = queues[dice_() % queues.size()];
    spec.priority = static_cast<std::int32_t>(dice_() % 3) * 10;
    if (dice_() % 2 == 0) spec.expected = Seconds(60 * (1 + dice_() % 5));
    last_ = desk_.submit(std::move(spec), "user" + std::to_string(dice_() % 50));
  }

  std::uint32_t running() {
    std::uint32_t count = 0;
    for (std::uint64_t i = 1; i <= last_.value(); ++i) {
      const model::Job* const job = desk_.queue().find(JobId(i));
      if (job != nullptr && job->state == model::JobState::kRunning) ++count;
    }
    return count;
  }

  // One that runs ends, if any does.
  void end_one() {
    for (std::uint64_t tries = 0; tries < last_.value(); ++tries) {
      next_ = next_ % last_.value() + 1;
      const model::Job* const job = desk_.queue().find(JobId(next_));
      if (job == nullptr || !is_active(job->state)) continue;
      desk_.end(JobId(next_));
      desk_.queue().forget(JobId(next_));
      return;
    }
  }

  jobs::testing::Desk& desk() { return desk_; }
  [[nodiscard]] JobId last() const { return last_; }

 private:
  jobs::testing::Desk desk_;
  std::mt19937_64 dice_{1};
  JobId last_;
  std::uint64_t next_ = 0;
};

void pass_when_nothing_fits(benchmark::State& state) {
  Team team(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    team.desk().wait(1);
    benchmark::DoNotOptimize(team.desk().pass());
  }
  state.counters["running"] = team.running();
}
BENCHMARK(pass_when_nothing_fits)->Arg(100)->Arg(1'000)->Arg(10'000)->Unit(benchmark::kMillisecond);

void pass_after_an_end_and_a_submit(benchmark::State& state) {
  Team team(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    team.desk().wait(1);
    team.end_one();
    team.submit();
    state.ResumeTiming();
    benchmark::DoNotOptimize(team.desk().run());
  }
  state.counters["running"] = team.running();
}
BENCHMARK(pass_after_an_end_and_a_submit)
    ->Arg(100)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);

void explain_the_last_in_line(benchmark::State& state) {
  Team team(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(team.desk().queue().explain(team.last(), team.desk().now()));
  }
}
BENCHMARK(explain_the_last_in_line)->Arg(100)->Arg(10'000)->Unit(benchmark::kMillisecond);

void submit_and_cancel(benchmark::State& state) {
  Team team(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    team.submit();
    const auto cancelled = team.desk().queue().cancel(team.last(), "ada", team.desk().now());
    if (!cancelled) state.SkipWithError("not cancelled");
    team.desk().queue().forget(team.last());
  }
}
BENCHMARK(submit_and_cancel)->Arg(10'000)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
