#include "sim/pack_replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "place/cluster.h"
#include "place/fit.h"
#include "place/fragmentation.h"
#include "place/lots.h"
#include "place/placer.h"
#include "place/policy.h"
#include "place/workload.h"

namespace divvy::sim {
namespace {

constexpr std::size_t kProgressStep = 512;

// The benchmark rounds what it reads before it takes the mean.
double rounded(double percent) { return std::round(100 * percent) / 100; }

// The fragmentation of all nodes, kept up to date node by node.
class FragmentationMeter {
 public:
  FragmentationMeter(const place::Cluster& cluster, const place::Workload& workload)
      : cluster_(cluster), fragmentation_(workload.typical(place::kTypicalPart)) {
    for (std::uint32_t i = 0; i < cluster.size(); ++i) {
      of_node_.push_back(fragmentation_.now(place::view(cluster, place::NodeId(i))));
      sum_ += of_node_.back();
      idle_ += cluster.state(place::NodeId(i)).idle;
    }
  }

  void before(place::NodeId node) { idle_ -= cluster_.state(node).idle; }
  void after(place::NodeId node) {
    idle_ += cluster_.state(node).idle;
    double& known = of_node_[node.value()];
    const double now = fragmentation_.now(place::view(cluster_, node));
    sum_ += now - known;
    known = now;
  }

  // In thousandths of a GPU. What is added and taken away so often may end a little below zero.
  [[nodiscard]] double sum() const { return std::max(0.0, sum_); }
  [[nodiscard]] double idle() const { return static_cast<double>(idle_); }

 private:
  const place::Cluster& cluster_;
  place::Fragmentation fragmentation_;
  std::vector<double> of_node_;
  double sum_ = 0;
  std::uint64_t idle_ = 0;
};

struct Bucket {
  PackLevel sum;
  double arrivals = 0;
};

Result<std::unique_ptr<place::Cluster>> make_cluster(const std::vector<place::NodeSpec>& nodes,
                                                     std::uint64_t seed) {
  std::vector<std::uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0U);
  place::Lots(seed).shuffle(std::span(order));
  auto cluster = std::make_unique<place::Cluster>();
  for (const std::uint32_t i : order) DIVVY_RETURN_IF_ERROR(cluster->add(nodes[i]));
  return cluster;
}

}  // namespace

place::Ask ask_of(const PackPod& pod, const std::vector<std::string>& models) {
  place::Ask ask;
  ask.cpu_milli = static_cast<std::int64_t>(pod.cpu_milli);
  ask.ram = static_cast<std::int64_t>(pod.ram.count());
  if (pod.gpu_milli == Share::kWhole) {
    ask.whole = pod.gpus;
  } else {
    ask.part = pod.gpu_milli;
  }
  if (pod.models.empty()) return ask;
  ask.models = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (std::ranges::find(pod.models, models[i]) != pod.models.end()) {
      ask.models |= place::ModelSet{1} << i;
    }
  }
  return ask;
}

Result<PackRun> replay_pack(const PackInput& input, const PackSequence& sequence,
                            const PackOptions& options) {
  DIVVY_TRY(cluster, make_cluster(input.nodes, options.seed));
  DIVVY_TRY(policy, place::make_policy(options.policy, options.seed));
  place::Workload workload;
  std::vector<place::Ask> asks;
  for (const PackPod& pod : input.pods) {
    asks.push_back(ask_of(pod, cluster->models()));
    workload.count(asks.back());
  }
  place::Placer placer(*cluster, std::move(policy));
  placer.prepare(workload);
  std::vector<place::AskId> ids;
  ids.reserve(asks.size());
  for (const place::Ask& ask : asks) ids.push_back(placer.intern(ask));

  const auto total = static_cast<double>(cluster->total_share());
  FragmentationMeter meter(*cluster, workload);
  std::map<std::uint64_t, Bucket> buckets;
  std::uint64_t arrived = 0;
  std::uint64_t placed = 0;
  PackRun run;
  run.sequence = sequence.name;
  run.arrivals = sequence.arrivals.size();
  for (std::size_t i = 0; i < sequence.arrivals.size(); ++i) {
    if (options.progress && i % kProgressStep == 0) options.progress(i);
    const std::uint32_t pod = sequence.arrivals[i];
    arrived += input.pods[pod].share();
    if (const auto spot = placer.choose(ids[pod])) {
      meter.before(spot->node);
      cluster->take(*spot);
      meter.after(spot->node);
      placed += input.pods[pod].share();
    } else {
      ++run.failed;
    }
    run.alloc = 100 * static_cast<double>(placed) / total;
    const double percent = 100 * static_cast<double>(arrived) / total;
    Bucket& bucket = buckets[static_cast<std::uint64_t>(std::llround(percent))];
    bucket.sum.alloc += rounded(run.alloc);
    bucket.sum.frag += rounded(100 * meter.sum() / total);
    bucket.sum.frag_ratio += meter.idle() > 0 ? rounded(100 * meter.sum() / meter.idle()) : 0;
    ++bucket.arrivals;
  }
  for (const auto& [level, bucket] : buckets) {
    run.levels[level] = {.alloc = bucket.sum.alloc / bucket.arrivals,
                         .frag = bucket.sum.frag / bucket.arrivals,
                         .frag_ratio = bucket.sum.frag_ratio / bucket.arrivals};
  }
  return run;
}

}  // namespace divvy::sim
