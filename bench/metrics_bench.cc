// What a scrape costs: 16 GPUs and 500 tenants, as the daemon's inside has them, and the same over
// HTTP.
#include <benchmark/benchmark.h>

#include "jobs/testing.h"
#include "machine_inside.h"

namespace {

using namespace divvy;
using divvy::testing::MachineInside;

std::unique_ptr<MachineInside> inside;  // Made by main

void Scrape(benchmark::State& state) {
  const api::MetricsRoutes routes(inside->sources(), {});
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto answer =
        routes.handle({.method = "GET", .path = "/metrics", .query = {}, .body = {}});
    bytes = answer.body.size();
    benchmark::DoNotOptimize(answer.body.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(Scrape)->Unit(benchmark::kMillisecond);

void ScrapeOverHttp(benchmark::State& state) {
  api::MetricsOptions options;
  options.listen = net::TcpAddress{"127.0.0.1", 0};
  const api::MetricsRoutes routes(inside->sources(), options);
  const auto server = api::serve_metrics(routes, options);
  options.listen->port = server->port();
  for (auto _ : state) {
    const auto answer = net::http_request(
        *options.listen, {.method = "GET", .path = "/metrics", .query = {}, .body = {}},
        std::chrono::seconds(30));
    if (!answer || answer->status != 200) state.SkipWithError("no answer");
  }
}
BENCHMARK(ScrapeOverHttp)->Unit(benchmark::kMillisecond)->UseRealTime();

// What a scrape asks of the queue, with so many jobs in it: others wait for it meanwhile.
void CountJobs(benchmark::State& state) {
  jobs::testing::Desk desk;
  for (int i = 0; i < state.range(0); ++i) {
    desk.submit(jobs::testing::spec(1000), "user" + std::to_string(i % 50));
  }
  for (auto _ : state) benchmark::DoNotOptimize(desk.queue().load(desk.now()));
}
BENCHMARK(CountJobs)->Arg(10'000)->Unit(benchmark::kMillisecond);

// One number of one wait, as often as the arbiter and the ledger count one.
void RecordATiming(benchmark::State& state) {
  Timings timings;
  std::int64_t ns = 0;
  for (auto _ : state) timings.record(std::chrono::nanoseconds(ns += 997));
  benchmark::DoNotOptimize(timings.counts());
}
BENCHMARK(RecordATiming);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  inside = std::make_unique<MachineInside>(16);
  for (int i = 0; i < 500; ++i) inside->grant("tenant-" + std::to_string(i), "0.03");
  inside->sample();
  benchmark::RunSpecifiedBenchmarks();
  inside.reset();
  return 0;
}
