// Random days of a cluster: pods come, end, are deleted and deleted by force, words come late and
// in another order, answers are lost, controllers are started anew at any step, two of them work at
// once. Some pods go by claims, some by slots. Whatever happens, what claims and pods say never
// adds up to more than a GPU has, no pod has the slice of another, whoever fits runs in the end,
// and nothing is left.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>

#include "kube/cluster_testing.h"
#include "kube/random_events.h"

namespace divvy::kube {
namespace {

using namespace std::chrono_literals;
using testing::any_events;
using testing::SimulatedCluster;
using testing::TestController;
using Event = testing::RandomEvent;
using Fault = TestController::Fault;

class Day {
 public:
  explicit Day(std::size_t controllers) {
    for (std::size_t i = 0; i < controllers; ++i) start_controller();
  }

  void happen(const Event& event) {
    std::uint32_t lot = event.lot;
    const auto draw = [&lot](std::size_t below) {
      const auto drawn = static_cast<std::size_t>(lot % below);
      lot = lot * 1664525U + 1013904223U;
      return drawn;
    };
    TestController& controller = *controllers_[draw(controllers_.size())];
    switch (event.kind) {
      case 0:
      case 1:
      case 2: {
        static const std::vector<std::string> kSizes{"0.2", "0.3", "0.5", "0.7", "1", "1.5", "2"};
        const std::string name = fmt::format("pod-{}", created_++);
        testing::TestPod pod{.name = name, .gpu = kSizes[draw(kSizes.size())]};
        if (draw(4) == 0) pod.containers = {"left", "right"};
        // Two of them do not fit on two GPUs.
        if (pod.containers.size() == 2 && pod.gpu.size() > 1 && pod.gpu[0] == '1') pod.gpu = "0.5";
        if (pod.containers.size() == 2 && pod.gpu == "2") pod.gpu = "1";
        pod.slots = draw(3) == 0;
        if (draw(12) == 0) pod.node = cluster.node_names()[draw(2)];
        cluster.create_pod(pod);
        pods_.push_back(name);
        break;
      }
      case 3:
        if (!pods_.empty()) cluster.finish_pod(pods_[draw(pods_.size())]);
        break;
      case 4:
        if (!pods_.empty()) cluster.delete_pod(pods_[draw(pods_.size())]);
        break;
      case 5:
        if (!pods_.empty()) cluster.delete_pod(pods_[draw(pods_.size())], true);
        break;
      case 6:
      case 7:
        cluster.schedule();
        break;
      case 8:
      case 9:
        cluster.run_kubelets();
        break;
      case 10:
        cluster.manage();
        break;
      case 11:
        cluster.report_nodes();
        break;
      case 12:
      case 13:
        controller.hear(draw(5), 1 + draw(4));
        break;
      case 14:
        controller.hear_all();
        break;
      case 15:
        controller.answer();
        [[fallthrough]];
      case 16:
        controller.decide();
        break;
      case 17:
      case 18:
      case 19:
        for (std::size_t i = draw(4); i < 4 && controller.actions() > 0; ++i) {
          controller.act(draw(controller.actions()));
        }
        break;
      case 20:
        if (controller.actions() > 0) {
          static constexpr Fault kFaults[] = {Fault::kAnswerLost, Fault::kNotDone,
                                              Fault::kAnswerLate, Fault::kAnswerLate};
          controller.act(draw(controller.actions()), kFaults[draw(std::size(kFaults))]);
        }
        break;
      case 21:
        cluster.clock().advance(std::chrono::seconds(draw(40)));
        break;
      case 22: {
        // Killed: what it wanted done is not done any more, and the next one begins anew.
        const std::size_t which = draw(controllers_.size());
        controllers_.erase(controllers_.begin() + static_cast<std::ptrdiff_t>(which));
        start_controller();
        break;
      }
      case 23: {
        const std::string& node = cluster.node_names()[draw(2)];
        cluster.room[node] = cluster.room[node] == 0 ? 3 : 0;
        break;
      }
      default:
        break;
    }
  }

  // Nobody comes any more, everybody does their work, and pods end a while after they began.
  void come_to_an_end() {
    for (auto& [node, room] : cluster.room) room = 1000;
    for (int round = 0; round < 400; ++round) {
      for (auto& controller : controllers_) controller->work();
      cluster.settle();
      cluster.clock().advance(5s);
      bool all_ended = true;
      for (const std::string& pod : pods_) {
        const std::string phase = cluster.phase(pod);
        if (phase == "Running") cluster.finish_pod(pod);
        all_ended = all_ended && (phase.empty() || phase == "Succeeded");
      }
      if (all_ended) break;
    }
    for (auto& controller : controllers_) controller->work();
  }

  // Those that are there and did not run.
  [[nodiscard]] std::vector<std::string> left_behind() {
    std::vector<std::string> names;
    for (const std::string& pod : pods_) {
      if (cluster.pod(pod) && cluster.phase(pod) != "Succeeded") names.push_back(pod);
    }
    return names;
  }

  void delete_all() {
    for (const std::string& pod : pods_) cluster.delete_pod(pod);
    for (int round = 0; round < 6; ++round) {
      cluster.settle();
      cluster.clock().advance(120s);
      cluster.report_nodes();
      for (auto& controller : controllers_) controller->work();
    }
  }

  SimulatedCluster cluster{2, 2};
  [[nodiscard]] std::vector<std::unique_ptr<TestController>>& controllers() { return controllers_; }

 private:
  void start_controller() {
    controllers_.push_back(std::make_unique<TestController>(cluster, ++seeds_));
  }

  std::vector<std::unique_ptr<TestController>> controllers_;
  std::uint64_t seeds_ = 0;
  std::vector<std::string> pods_;
  int created_ = 0;
};

void check_the_end(Day& day) {
  day.come_to_an_end();
  const auto left = day.left_behind();
  if (!left.empty()) {
    for (const std::string& pod : left) {
      RC_LOG(fmt::format("{} {}\n", pod, boost::json::serialize(*day.cluster.pod(pod))));
      if (const auto why =
              day.controllers()[0]->queue().explain("team-a", pod, day.cluster.now())) {
        RC_LOG(why->text + "\n");
      }
    }
  }
  RC_ASSERT(left.empty());
  day.delete_all();
  RC_ASSERT(day.cluster.held() == 0U);
  RC_ASSERT(day.cluster.api().list("/apis/resource.k8s.io/v1/resourceclaims").empty());
  RC_ASSERT(day.cluster.api().list("/api/v1/pods").empty());
  for (auto& controller : day.controllers()) {
    RC_ASSERT(controller->queue().bookings().empty());
    RC_ASSERT(controller->queue().entries_kept() == 0U);
  }
}

RC_GTEST_PROP(ClusterQueueProperty, AllocationsNeverAddUpToMoreThanAGpuHas, ()) {
  Day day(1);
  for (const Event& event : any_events()) {
    day.happen(event);
    const auto claims = day.cluster.overbooked_claims();
    if (claims) RC_FAIL(*claims);
    const auto shared = day.cluster.shared_devices();
    if (shared) RC_FAIL(*shared);
  }
  check_the_end(day);
}

// Two that both believe to lead: what nodes hold is right at every moment, and the claims are in
// the end.
RC_GTEST_PROP(ClusterQueueProperty, TwoControllersAtOnceComeToTheSameEnd, ()) {
  Day day(2);
  for (const Event& event : any_events()) {
    day.happen(event);
    const auto ledgers = day.cluster.overbooked_ledgers();
    if (ledgers) RC_FAIL(*ledgers);
    const auto shared = day.cluster.shared_devices();
    if (shared) RC_FAIL(*shared);
  }
  check_the_end(day);
  RC_ASSERT(!day.cluster.overbooked_claims());
}

RC_GTEST_PROP(ClusterQueueProperty, AFreshControllerHoldsWhatTheOldOneHeld, ()) {
  Day day(1);
  for (const Event& event : any_events()) day.happen(event);
  TestController& old = *day.controllers()[0];
  for (int round = 0; round < 3; ++round) {
    old.work();
    day.cluster.settle();
    day.cluster.clock().advance(60s);
    day.cluster.report_nodes();
  }
  old.work();
  TestController fresh(day.cluster, 77);
  fresh.hear_all();
  fresh.decide();
  const auto before = old.queue().bookings();
  const auto after = fresh.queue().bookings();
  for (const auto& [claim, booking] : before) {
    RC_ASSERT(after.contains(claim));
    RC_ASSERT(after.at(claim).node == booking.node);
    RC_ASSERT(after.at(claim).slices == booking.slices);
  }
}

}  // namespace
}  // namespace divvy::kube
