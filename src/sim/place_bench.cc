#include "sim/place_bench.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <random>
#include <utility>

#include "place/placer.h"
#include "sim/pack_replay.h"

namespace divvy::sim {
namespace {

using place::AskId;
using place::Cluster;
using place::HoldingId;
using place::NodeSpec;
using place::Placer;
using place::Request;

constexpr std::uint64_t kSeed = 1;
constexpr std::uint32_t kNodesInRack = 32;
constexpr std::uint32_t kRacksInZone = 64;
// While members come and go the cluster is kept at this much of what it held when it was full.
constexpr double kSteadyPart = 0.97;
constexpr int kSteadyTurn = 16;
constexpr int kGangRounds = 100;
// What a controller of a large cluster finds in its record when it starts.
constexpr std::size_t kLoadedNodes = 20'000;
constexpr std::size_t kLoadedMembersOnNode = 10;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  statm >> all >> resident;
  return resident * 4096;
}

// Times single decisions and sums them up. Counts the processor time from begin() to end().
class Times {
 public:
  Times() { begin(); }

  void begin() { began_ = cpu_seconds(); }
  void end() {
    spent_ += cpu_seconds() - *began_;
    began_.reset();
  }

  template <typename Work>
  auto time(Work&& work) {
    const auto before = std::chrono::steady_clock::now();
    auto result = work();
    times_.push_back(std::chrono::steady_clock::now() - before);
    return result;
  }

  void fill(PlaceBenchRow& row) {
    if (began_) end();
    row.cpu_seconds = spent_;
    row.decisions = times_.size();
    std::ranges::sort(times_);
    const auto at = [&](double part) {
      const auto index = static_cast<std::size_t>(part * static_cast<double>(times_.size()));
      if (times_.empty()) return 0.0;
      const auto ns = times_[std::min(index, times_.size() - 1)].count();
      return static_cast<double>(ns) / 1000.0;
    };
    row.p50_us = at(0.5);
    row.p99_us = at(0.99);
    row.p999_us = at(0.999);
  }

 private:
  std::optional<double> began_;
  double spent_ = 0;
  std::vector<std::chrono::steady_clock::duration> times_;
};

// Half of the nodes have eight GPUs, the others four or two; CPUs as such machines have them.
std::vector<NodeSpec> our_nodes() {
  std::vector<NodeSpec> nodes;
  const auto add = [&nodes](int count, std::uint32_t gpus, const char* model, std::uint64_t cpus) {
    for (int i = 0; i < count; ++i) {
      NodeSpec spec;
      spec.cpu_milli = cpus * 1000;
      spec.ram = gib(8 * cpus);
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
        spec.devices.push_back({model, gib(80), gpu / 4, gpu / 2, gpu / 4, ""});
      }
      nodes.push_back(std::move(spec));
    }
  };
  add(10, 8, "H200", 192);
  add(6, 4, "A100", 64);
  add(4, 2, "L40S", 64);
  return nodes;
}

std::vector<PackPod> our_pods() {
  std::vector<PackPod> pods;
  const auto add = [&pods](int count, std::uint32_t gpus, std::uint32_t milli, std::uint64_t cpus) {
    for (int i = 0; i < count; ++i) {
      pods.push_back({"", cpus * 1000, gib(4 * cpus), gpus, milli, {}});
    }
  };
  add(6, 1, 100, 2);
  add(10, 1, 250, 4);
  add(8, 1, 300, 4);
  add(12, 1, 500, 8);
  add(40, 1, 1000, 8);
  add(8, 2, 1000, 16);
  add(6, 4, 1000, 32);
  add(6, 8, 1000, 64);
  add(4, 0, 0, 4);
  return pods;
}

// As many nodes as have so many GPUs, and at least so many nodes.
std::vector<NodeSpec> cluster_of(const std::vector<NodeSpec>& pattern, std::uint64_t gpus,
                                 std::size_t at_least = 0) {
  std::vector<NodeSpec> nodes;
  std::uint64_t have = 0;
  for (std::size_t i = 0; have < gpus || nodes.size() < at_least; ++i) {
    NodeSpec spec = pattern[i % pattern.size()];
    have += spec.devices.size();
    spec.name = "node-" + std::to_string(i);
    nodes.push_back(std::move(spec));
  }
  // In no particular order, as machines stand; racks are what stands together.
  std::mt19937_64 dice(kSeed);
  for (std::size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[dice() % i]);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].rack = "rack-" + std::to_string(i / kNodesInRack);
    nodes[i].zone = "zone-" + std::to_string(i / (kNodesInRack * kRacksInZone));
  }
  return nodes;
}

class Bench {
 public:
  Bench(const PlaceBenchOptions& options, std::uint64_t gpus,
        const std::function<void(const PlaceBenchRow&)>& told)
      : options_(options), told_(told), before_bytes_(resident_bytes()) {
    specs_ = cluster_of(options.nodes.empty() ? our_nodes() : options.nodes, gpus);
    pods_ = options.pods.empty() ? our_pods() : options.pods;
  }

  // A start with a full record, whatever the size of the cluster that is measured otherwise.
  Result<PlaceBenchRow> load_many() {
    specs_ = cluster_of(options_.nodes.empty() ? our_nodes() : options_.nodes, 0, kLoadedNodes);
    DIVVY_RETURN_IF_ERROR(build(cluster_));
    std::vector<place::Spot> spots;
    for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
      const place::NodeId node(i);
      const place::NodeShape& shape = cluster_.shape(node);
      for (std::size_t member = 0; member < kLoadedMembersOnNode; ++member) {
        place::Spot spot;
        spot.node = node;
        spot.cpu_milli = shape.cpu_milli / static_cast<std::int64_t>(2 * kLoadedMembersOnNode);
        if (shape.devices != 0) {
          const std::size_t device = member % shape.devices;
          spot.part_device = static_cast<std::int16_t>(device);
          spot.part = Share::kWhole / kLoadedMembersOnNode;
          spot.part_memory = shape.memory[device] / kLoadedMembersOnNode;
        }
        spots.push_back(spot);
      }
    }
    for (const place::Spot& spot : spots) cluster_.take(spot);
    return load(spots);
  }

  Status run(std::vector<PlaceBenchRow>& rows) {
    DIVVY_RETURN_IF_ERROR(build(cluster_));
    DIVVY_TRY(policy, place::make_policy(options_.policy, kSeed));
    Placer placer(cluster_, std::move(policy));
    prepare(placer);
    rows.push_back(fill(placer));
    for (PlaceBenchRow& one : steady(placer)) rows.push_back(std::move(one));
    make_room();
    for (const std::uint32_t members : {8U, 64U, 512U}) {
      for (const bool near : {false, true}) {
        if (const auto row = gang(placer, members, near)) rows.push_back(*row);
      }
    }
    std::vector<place::Spot> spots;
    spots.reserve(held_.size());
    for (const HoldingId id : held_) spots.push_back(cluster_.holding(id).spot);
    DIVVY_TRY(loaded, load(spots));
    rows.push_back(loaded);
    return {};
  }

 private:
  Status build(Cluster& cluster) const {
    for (const NodeSpec& spec : specs_) {
      if (auto added = cluster.add(spec); !added) return err(std::move(added).error());
    }
    return {};
  }

  void prepare(Placer& placer) {
    place::Workload workload;
    std::vector<place::Ask> asks;
    for (const PackPod& pod : pods_) {
      asks.push_back(ask_of(pod, placer.cluster().models()));
      workload.count(asks.back());
    }
    placer.prepare(std::move(workload));
    ids_.clear();
    shares_.clear();
    for (const place::Ask& ask : asks) ids_.push_back(placer.intern(ask));
    for (const PackPod& pod : pods_) shares_.push_back(pod.share());
  }

  PlaceBenchRow row(std::string what) const {
    PlaceBenchRow result;
    result.what = std::move(what);
    result.nodes = cluster_.size();
    result.gpus = cluster_.total_share() / Share::kWhole;
    return result;
  }

  PlaceBenchRow done(PlaceBenchRow result, Times& times) const {
    times.fill(result);
    result.held_percent = 100.0 * static_cast<double>(cluster_.held_share()) /
                          static_cast<double>(cluster_.total_share());
    const std::uint64_t now = resident_bytes();
    result.bytes = now > before_bytes_ ? now - before_bytes_ : 0;
    if (told_) told_(result);
    return result;
  }

  // A decision is to choose and to take. Returns what was asked for.
  std::uint64_t arrive(Placer& placer, Times& times) {
    const std::size_t which = dice_() % pods_.size();
    const auto holding = times.time([&]() -> std::optional<HoldingId> {
      const auto spot = placer.choose(ids_[which]);
      if (!spot) return std::nullopt;
      return cluster_.take(*spot);
    });
    if (holding) held_.push_back(*holding);
    return shares_[which];
  }

  void depart(Times& times) {
    const std::size_t which = dice_() % held_.size();
    times.time([&] {
      cluster_.release(held_[which]);
      return true;
    });
    held_[which] = held_.back();
    held_.pop_back();
  }

  PlaceBenchRow fill(Placer& placer) {
    PlaceBenchRow result = row("fill");
    Times times;
    std::uint64_t asked = 0;
    while (asked < cluster_.total_share()) asked += arrive(placer, times);
    return done(result, times);
  }

  // As many leave as come, in turns of a few, so that the one and the other can be told apart.
  std::array<PlaceBenchRow, 2> steady(Placer& placer) {
    PlaceBenchRow come = row("steady");
    PlaceBenchRow leave = row("members that leave");
    const auto level =
        static_cast<std::uint64_t>(kSteadyPart * static_cast<double>(cluster_.held_share()));
    Times coming;
    Times leaving;
    coming.end();
    leaving.end();
    for (std::uint64_t came = 0; came < options_.steady_decisions;) {
      leaving.begin();
      while (cluster_.held_share() > level) depart(leaving);
      leaving.end();
      coming.begin();
      for (int i = 0; i < kSteadyTurn && came < options_.steady_decisions; ++i, ++came) {
        arrive(placer, coming);
      }
      coming.end();
    }
    return {done(come, coming), done(leave, leaving)};
  }

  // Nearly half of the cluster empty again, node by node, so that gangs of whole GPUs find room.
  void make_room() {
    std::vector<HoldingId> kept;
    for (const HoldingId id : held_) {
      const place::NodeId node = cluster_.holding(id).spot.node;
      if (cluster_.rack(node) % 2 == 0) {
        cluster_.release(id);
      } else {
        kept.push_back(id);
      }
    }
    held_ = std::move(kept);
  }

  std::optional<PlaceBenchRow> gang(Placer& placer, std::uint32_t members, bool near) {
    Request request;
    request.member.whole_gpus = 1;
    request.member.cpu_milli = 4'000;
    request.members = members;
    const bool small = members <= 64;
    if (near) {
      request.members_near = {small ? place::Closeness::kRack : place::Closeness::kZone, true};
    }
    PlaceBenchRow result = row(fmt::format("gang of {}{}", members,
                                           !near   ? ""
                                           : small ? ", one rack"
                                                   : ", one zone"));
    if (placer.plan(request).empty()) return std::nullopt;  // too small a cluster
    Times times;
    for (int i = 0; i < kGangRounds; ++i) {
      times.time([&] { return placer.plan(request).size(); });
    }
    return done(result, times);
  }

  // Everything from the record: nodes, members, tables, and one decision.
  Result<PlaceBenchRow> load(const std::vector<place::Spot>& spots) {
    PlaceBenchRow result = row(fmt::format("load with {} members", spots.size()));
    Times times;
    Cluster fresh;
    std::optional<Placer> placer;
    Status built;
    times.time([&] {
      built = build(fresh);
      for (const place::Spot& spot : spots) fresh.take(spot);
      auto policy = place::make_policy(options_.policy, kSeed);
      placer.emplace(fresh, *std::move(policy));
      prepare(*placer);
      return placer->choose(ids_.front()).has_value();
    });
    if (!built) return err(built.error());
    return done(result, times);
  }

  const PlaceBenchOptions& options_;
  const std::function<void(const PlaceBenchRow&)>& told_;
  std::uint64_t before_bytes_;
  std::vector<NodeSpec> specs_;
  std::vector<PackPod> pods_;
  Cluster cluster_;
  std::vector<AskId> ids_;             // by pod
  std::vector<std::uint64_t> shares_;  // by pod
  std::vector<HoldingId> held_;
  std::mt19937_64 dice_{kSeed};
};

}  // namespace

Result<std::vector<PlaceBenchRow>> bench_place(
    const PlaceBenchOptions& options, const std::function<void(const PlaceBenchRow&)>& told) {
  if (options.gpus.empty()) {
    return err(ErrorCode::kInvalidArgument, "no size of a cluster is named");
  }
  std::vector<PlaceBenchRow> rows;
  for (const std::uint64_t gpus : options.gpus) {
    if (gpus == 0 || gpus > 10'000'000) {
      return err(ErrorCode::kOutOfRange, "a cluster of {} GPUs cannot be measured", gpus);
    }
    Bench bench(options, gpus, told);
    DIVVY_RETURN_IF_ERROR(bench.run(rows));
  }
  Bench bench(options, 0, told);
  DIVVY_TRY(loaded, bench.load_many());
  rows.push_back(loaded);
  return rows;
}

}  // namespace divvy::sim
