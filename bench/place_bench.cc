// Single operations of the placement engine, by size of the cluster. `divvy bench place` measures
// whole workloads.
#include <benchmark/benchmark.h>

#include <random>

#include "place/placer.h"
#include "place/testing.h"

namespace {

using namespace divvy;
using namespace divvy::place;

struct Fleet {
  explicit Fleet(std::uint32_t nodes, std::string_view policy) {
    for (std::uint32_t i = 0; i < nodes; ++i) {
      NodeSpec spec = place::testing::node("n" + std::to_string(i), 8, "H200", 192);
      spec.rack = "r" + std::to_string(i / 32);
      place::testing::add(cluster, std::move(spec));
    }
    placer = std::make_unique<Placer>(cluster, *make_policy(policy));
    Workload workload;
    for (const std::uint32_t part : {100U, 250U, 300U, 500U}) {
      asks.push_back(cluster.ask_of(place::testing::part(part)));
    }
    for (const std::uint32_t gpus : {1U, 2U, 4U, 8U}) {
      asks.push_back(cluster.ask_of(place::testing::whole(gpus)));
    }
    for (const Ask& ask : asks) workload.count(ask);
    placer->prepare(std::move(workload));
    for (const Ask& ask : asks) ids.push_back(placer->intern(ask));
  }

  Cluster cluster;
  std::unique_ptr<Placer> placer;
  std::vector<Ask> asks;
  std::vector<AskId> ids;
};

// A member comes and another one goes.
void choose_and_take(benchmark::State& state, std::string_view policy) {
  Fleet fleet(static_cast<std::uint32_t>(state.range(0)), policy);
  std::mt19937_64 dice(1);
  std::vector<HoldingId> held;
  while (fleet.cluster.held_share() < fleet.cluster.total_share() * 9 / 10) {
    const auto spot = fleet.placer->choose(fleet.ids[dice() % fleet.ids.size()]);
    if (spot) held.push_back(fleet.cluster.take(*spot));
  }
  for (auto _ : state) {
    HoldingId& one = held[dice() % held.size()];
    fleet.cluster.release(one);
    auto spot = fleet.placer->choose(fleet.ids[dice() % fleet.ids.size()]);
    if (!spot) spot = fleet.placer->choose(fleet.ids.front());
    if (!spot) state.SkipWithError("the cluster is full");
    one = fleet.cluster.take(*spot);
  }
}
BENCHMARK_CAPTURE(choose_and_take, divvy, "divvy")->Arg(125)->Arg(1'250)->Arg(12'500);
BENCHMARK_CAPTURE(choose_and_take, fgd, "fgd")->Arg(125)->Arg(1'250);

void gang_in_a_rack(benchmark::State& state) {
  Fleet fleet(1'250, "divvy");
  Request request = place::testing::whole(1, static_cast<std::uint32_t>(state.range(0)));
  request.members_near = {Closeness::kRack, true};
  for (auto _ : state) benchmark::DoNotOptimize(fleet.placer->plan(request));
}
BENCHMARK(gang_in_a_rack)->Arg(8)->Arg(64);

}  // namespace

BENCHMARK_MAIN();
