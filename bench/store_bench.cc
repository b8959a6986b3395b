// The store on a real disk: durable submits a second from 1, 8 and 64 callers at once, what a page
// of a long list costs, and how long a daemon that comes back takes to read its jobs. The folder is
// made in TMPDIR.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "base/temporary_folder.h"
#include "store/database.h"
#include "store/job_table.h"
#include "store/submission.h"

namespace {

using namespace divvy;
using namespace divvy::store;

Submission submission(std::uint32_t count = 1) {
  const auto make = [count](model::JobId first) {
    model::JobSpec spec(model::Request::parse("0.3").value());
    spec.name = "train";
    spec.command = {"python", "train.py", "--epochs", "3", "--data", "/data/imagenet"};
    spec.environment = {{"EPOCHS", "3"}, {"DATA", "/data/imagenet"}};
    const WallTime now(std::chrono::seconds(1));
    std::vector<model::Job> jobs;
    for (std::uint32_t i = 0; i < count; ++i) {
      jobs.emplace_back(model::JobId(first.value() + i), "ada", spec, now)
          .history.push_back({now, model::JobState::kQueued, "submitted"});
    }
    return jobs;
  };
  return {.owner = "ada", .at = {}, .make = make, .key = {}, .fingerprint = {}};
}

void submit_one(Database& database) {
  const Status done = database.commit([](Connection& connection) -> Status {
    DIVVY_RETURN_IF_ERROR(submit(connection, submission()));
    return {};
  });
  DIVVY_CHECK(done.has_value());
}

struct Shared {
  TemporaryFolder folder;
  std::unique_ptr<Database> database = Database::open(folder / "divvy.db").value();
};

void durable_submits(benchmark::State& state) {
  static std::unique_ptr<Shared> shared;
  if (state.thread_index() == 0) shared = std::make_unique<Shared>();
  for (auto _ : state) submit_one(*shared->database);
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    const Writer::Counts counts = shared->database->counts();
    state.counters["per_sync"] =
        static_cast<double>(counts.changes) / static_cast<double>(counts.syncs);
    shared.reset();
  }
}
BENCHMARK(durable_submits)->Threads(1)->Threads(8)->Threads(64)->UseRealTime();

void fill(Database& database, std::uint32_t jobs) {
  const Status done = database.commit([jobs](Connection& connection) -> Status {
    DIVVY_RETURN_IF_ERROR(submit(connection, submission(jobs)));
    return {};
  });
  DIVVY_CHECK(done.has_value());
}

void list_a_page(benchmark::State& state) {
  const Shared shared;
  fill(*shared.database, 10'000);
  JobFilter filter;
  filter.owner = "ada";
  filter.limit = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    const auto page = shared.database->read(
        [&](Connection& connection) { return JobTable(connection).list(filter); });
    DIVVY_CHECK(page && page->jobs.size() == filter.limit);
  }
}
BENCHMARK(list_a_page)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond)->UseRealTime();

void read_all_after_a_restart(benchmark::State& state) {
  const Shared shared;
  fill(*shared.database, 10'000);
  for (auto _ : state) {
    const auto jobs = shared.database->read(
        [](Connection& connection) { return JobTable(connection).unfinished(); });
    DIVVY_CHECK(jobs && jobs->size() == 10'000);
  }
}
BENCHMARK(read_all_after_a_restart)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
