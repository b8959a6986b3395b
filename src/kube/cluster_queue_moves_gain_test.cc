// What moving pods is worth: the same eight hours of a cluster, with it and without. Parts of GPUs
// come and go all the time, and now and then somebody wants whole ones. Everything is drawn from a
// seed, so that it is the same each time. docs/kubernetes-defragmentation.md has the numbers.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <iostream>
#include <random>

#include "kube/cluster_testing.h"
#include "kube/json_view.h"
#include "kube/object_names.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::SimulatedCluster;
using testing::TestController;

constexpr auto kStep = std::chrono::minutes(2);
constexpr int kSteps = 240;

struct Gain {
  std::int64_t waited_minutes = 0;  // of all that want whole GPUs
  std::int64_t longest_minutes = 0;
  std::int64_t gpu_minutes = 0;  // that they had
  std::uint64_t stranded = 0;    // thousandths, summed over the steps
  std::uint64_t evicted = 0;
  int ran = 0;
};

class Shift {
 public:
  Shift(std::uint32_t seed, Defragmentation mode) : random_(seed) {
    ClusterQueue::Options options;
    options.defragmentation.mode = mode;
    controller_ = std::make_unique<TestController>(cluster_, 1, std::move(options));
    owner_ = text_at(*cluster_.api().get("/api/v1/namespaces/team-a"), {"metadata", "uid"});
  }

  Gain play() {
    for (int step = 0; step < kSteps; ++step) {
      arrive();
      live();
      controller_->work();
      cluster_.settle();
      controller_->work();
      cluster_.clock().advance(kStep);
      cluster_.report_nodes();
      gain_.stranded += controller_->queue().free_room().stranded;
    }
    for (const Pod& pod : pods_) {
      if (pod.whole) gain_.longest_minutes = std::max(gain_.longest_minutes, pod.waited);
      if (pod.whole && pod.ran > 0) ++gain_.ran;
    }
    gain_.evicted = controller_->queue().moves().pods;
    return gain_;
  }

 private:
  struct Pod {
    std::string name;
    std::string gpu;
    bool whole = false;
    int lasts = 0;  // steps that it runs
    int ran = 0;
    int made = 0;
    std::int64_t waited = 0;
    bool over = false;
    bool gone = false;
    [[nodiscard]] std::string now() const { return fmt::format("{}-{}", name, made); }
  };

  std::uint32_t below(std::uint32_t most) { return static_cast<std::uint32_t>(random_() % most); }

  void create(const Pod& pod) {
    testing::TestPod made{.name = pod.now(), .gpu = pod.gpu};
    made.metadata["ownerReferences"] = json::array{json::object{{"apiVersion", "apps/v1"},
                                                                {"kind", "ReplicaSet"},
                                                                {"name", pod.name},
                                                                {"uid", owner_},
                                                                {"controller", true}}};
    if (!pod.whole) made.metadata["annotations"] = json::object{{kMovableAnnotation, "true"}};
    cluster_.create_pod(made);
  }

  void arrive() {
    static const std::vector<std::string> kParts{"0.2", "0.3", "0.4", "0.5", "0.6"};
    if (below(100) < 35) {
      const auto number = pods_.size();
      pods_.push_back({.name = fmt::format("part-{}", number),
                       .gpu = kParts[below(static_cast<std::uint32_t>(kParts.size()))],
                       .lasts = 30 + static_cast<int>(below(120))});
      create(pods_.back());
    }
    if (below(100) < 8) {
      const auto number = pods_.size();
      pods_.push_back({.name = fmt::format("whole-{}", number),
                       .gpu = below(2) == 0 ? "2" : "1",
                       .whole = true,
                       .lasts = 10 + static_cast<int>(below(20))});
      create(pods_.back());
    }
  }

  void live() {
    for (Pod& pod : pods_) {
      if (pod.gone) continue;
      if (pod.over) {
        pod.gone = cluster_.phase(pod.now()) == "Succeeded";
        if (pod.gone) cluster_.delete_pod(pod.now());
        continue;
      }
      const auto document = cluster_.pod(pod.now());
      if (!document) {
        ++pod.made;
        create(pod);
        continue;
      }
      if (cluster_.phase(pod.now()) != "Running") {
        pod.waited += kStep.count();
        if (pod.whole) gain_.waited_minutes += kStep.count();
        continue;
      }
      if (pod.whole) gain_.gpu_minutes += kStep.count() * (pod.gpu == "2" ? 2 : 1);
      if (++pod.ran < pod.lasts) continue;
      pod.over = true;
      cluster_.finish_pod(pod.now());
    }
  }

  SimulatedCluster cluster_{4, 4};
  std::mt19937 random_;
  std::unique_ptr<TestController> controller_;
  std::string owner_;
  std::vector<Pod> pods_;
  Gain gain_;
};

TEST(DefragmentationGain, WhoeverWantsWholeGpusWaitsLess) {
  Gain off;
  Gain on;
  const auto add = [](Gain& sum, const Gain& one) {
    sum.waited_minutes += one.waited_minutes;
    sum.longest_minutes = std::max(sum.longest_minutes, one.longest_minutes);
    sum.gpu_minutes += one.gpu_minutes;
    sum.stranded += one.stranded;
    sum.evicted += one.evicted;
    sum.ran += one.ran;
  };
  constexpr std::uint32_t kDays = 2;
  for (std::uint32_t seed = 1; seed <= kDays; ++seed) {
    add(off, Shift(seed, Defragmentation::kOff).play());
    add(on, Shift(seed, Defragmentation::kOn).play());
  }
  const auto show = [](const char* name, const Gain& gain) {
    std::cout << fmt::format(
        "{}: {} pods of whole GPUs ran, waited {} min in all, {} at most, had {} GPU minutes; "
        "{:.2f} GPU stranded on average; {} evicted\n",
        name, gain.ran, gain.waited_minutes, gain.longest_minutes, gain.gpu_minutes,
        static_cast<double>(gain.stranded) / (1000.0 * kSteps * kDays), gain.evicted);
  };
  show("off", off);
  show("on", on);
  EXPECT_EQ(off.evicted, 0U);
  EXPECT_GT(on.evicted, 0U);
  EXPECT_LT(on.waited_minutes, off.waited_minutes);
  EXPECT_GE(on.gpu_minutes, off.gpu_minutes);
}

}  // namespace
}  // namespace divvy::kube
