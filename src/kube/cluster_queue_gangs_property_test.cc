// Random days of gangs: their pods come one by one, end, are deleted and are made anew by whoever
// owns them; nodes run out of CPUs; words come late, answers are lost, the controller is killed at
// any step. Whatever happens: no pod of a gang is bound before all of them have their place, what
// claims say never adds up to more than a GPU has, every gang runs in the end, and nothing is left.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>

#include "kube/cluster_testing.h"
#include "kube/json_view.h"
#include "kube/random_events.h"

namespace divvy::kube {
namespace {

using namespace std::chrono_literals;
using testing::any_events;
using testing::SimulatedCluster;
using testing::TestController;
using Event = testing::RandomEvent;
using Fault = TestController::Fault;

// Whoever made the pods of a gang, and makes those anew that are lost.
struct Owner {
  std::string name;
  std::uint32_t size = 2;
  std::string gpu;
  bool slots = false;
  bool disturbed = false;  // some pod of it was deleted or has ended

  [[nodiscard]] std::string pod(std::uint32_t i) const { return fmt::format("{}-{}", name, i); }
};

class Day {
 public:
  explicit Day(bool binding_conditions) {
    cluster.api().knows_binding_conditions = binding_conditions;
    start_controller();
  }

  void happen(const Event& event) {
    std::uint32_t lot = event.lot;
    const auto draw = [&lot](std::size_t below) {
      const auto drawn = static_cast<std::size_t>(lot % below);
      lot = lot * 1664525U + 1013904223U;
      return drawn;
    };
    Owner* const owner = owners_.empty() ? nullptr : &owners_[draw(owners_.size())];
    switch (event.kind) {
      case 0: {
        static const std::vector<std::string> kSizes{"0.3", "0.5", "1"};
        owners_.push_back({.name = fmt::format("gang-{}", owners_.size()),
                           .size = 2 + static_cast<std::uint32_t>(draw(3)),
                           .gpu = kSizes[draw(kSizes.size())],
                           .slots = draw(5) == 0});
        break;
      }
      case 1: {
        const std::string name = fmt::format("pod-{}", singles_.size());
        cluster.create_pod({.name = name, .gpu = draw(2) == 0 ? "0.5" : "1"});
        singles_.push_back(name);
        break;
      }
      case 2:
      case 3:
      case 4:
        if (owner != nullptr) make_one(*owner, draw(owner->size));
        break;
      case 5:
        if (owner != nullptr) make_all(*owner);
        break;
      case 6:
        if (owner != nullptr) {
          disturb(*owner);
          cluster.finish_pod(owner->pod(static_cast<std::uint32_t>(draw(owner->size))));
        }
        break;
      case 7:
        if (owner != nullptr) {
          disturb(*owner);
          cluster.delete_pod(owner->pod(static_cast<std::uint32_t>(draw(owner->size))),
                             draw(3) == 0);
        }
        break;
      case 8:
      case 9:
      case 10:
        cluster.schedule();
        break;
      case 11:
        cluster.run_kubelets();
        break;
      case 12:
        cluster.manage();
        break;
      case 13:
        cluster.report_nodes();
        break;
      case 14:
        controller_->hear(draw(5), 1 + draw(4));
        break;
      case 15:
        controller_->hear_all();
        break;
      case 16:
        controller_->answer();
        [[fallthrough]];
      case 17:
        controller_->decide();
        break;
      case 18:
      case 19:
        for (std::size_t i = draw(6); i < 6 && controller_->actions() > 0; ++i) {
          controller_->act(draw(controller_->actions()));
        }
        break;
      case 20:
        if (controller_->actions() > 0) {
          static constexpr Fault kFaults[] = {Fault::kAnswerLost, Fault::kNotDone,
                                              Fault::kAnswerLate, Fault::kAnswerLate};
          controller_->act(draw(controller_->actions()), kFaults[draw(std::size(kFaults))]);
        }
        break;
      case 21:
        cluster.clock().advance(std::chrono::seconds(draw(40)));
        break;
      case 22:
        start_controller();
        break;
      case 23: {
        const std::string& node = cluster.node_names()[draw(2)];
        cluster.room[node] = cluster.room[node] == 0 ? 3 : 0;
        break;
      }
      default:
        break;
    }
  }

  // Of gangs that nobody has touched: who is bound is not before the others have their places.
  [[nodiscard]] std::optional<std::string> started_in_part() {
    for (const Owner& owner : owners_) {
      if (owner.disturbed || owner.slots) continue;
      std::uint32_t bound = 0;
      std::uint32_t reserved = 0;
      for (std::uint32_t i = 0; i < owner.size; ++i) {
        const auto pod = cluster.pod(owner.pod(i));
        const auto claim = pod ? cluster.claim(owner.pod(i)) : std::nullopt;
        if (pod && !text_at(*pod, {"spec", "nodeName"}).empty()) ++bound;
        if (claim && !array_at(*claim, {"status", "reservedFor"}).empty()) ++reserved;
      }
      if (bound > 0 && reserved < owner.size) {
        return fmt::format("{} of {} are bound, {} have a place, of {}", bound, owner.name,
                           reserved, owner.size);
      }
    }
    return std::nullopt;
  }

  void come_to_an_end() {
    for (auto& [node, room] : cluster.room) room = 1000;
    for (int round = 0; round < 400; ++round) {
      for (Owner& owner : owners_) make_all(owner);
      controller_->work();
      cluster.settle();
      cluster.clock().advance(5s);
      bool all_ended = true;
      for (const std::string& pod : pods()) {
        const std::string phase = cluster.phase(pod);
        if (phase == "Running") cluster.finish_pod(pod);
        all_ended = all_ended && phase == "Succeeded";
      }
      if (all_ended) break;
    }
    controller_->work();
  }

  [[nodiscard]] std::vector<std::string> pods() const {
    std::vector<std::string> names = singles_;
    for (const Owner& owner : owners_) {
      for (std::uint32_t i = 0; i < owner.size; ++i) names.push_back(owner.pod(i));
    }
    return names;
  }

  void delete_all() {
    for (const std::string& pod : pods()) cluster.delete_pod(pod);
    for (int round = 0; round < 30; ++round) {
      cluster.settle();
      cluster.clock().advance(120s);
      cluster.report_nodes();
      controller_->work();
    }
  }

  [[nodiscard]] TestController& controller() { return *controller_; }
  SimulatedCluster cluster{2, 2};

 private:
  void start_controller() { controller_ = std::make_unique<TestController>(cluster, ++seeds_); }
  void make_one(const Owner& owner, std::size_t i) {
    const std::string name = owner.pod(static_cast<std::uint32_t>(i));
    if (cluster.pod(name)) return;
    cluster.create_pod({.name = name,
                        .gpu = owner.gpu,
                        .slots = owner.slots,
                        .gang = PodGang{owner.name, owner.size, 0}});
  }
  void make_all(const Owner& owner) {
    for (std::uint32_t i = 0; i < owner.size; ++i) make_one(owner, i);
  }
  static void disturb(Owner& owner) { owner.disturbed = true; }

  std::unique_ptr<TestController> controller_;
  std::uint64_t seeds_ = 0;
  std::vector<Owner> owners_;
  std::vector<std::string> singles_;
};

void play(bool binding_conditions) {
  Day day(binding_conditions);
  for (const Event& event : any_events()) {
    day.happen(event);
    if (const auto claims = day.cluster.overbooked_claims()) RC_FAIL(*claims);
    if (const auto shared = day.cluster.shared_devices()) RC_FAIL(*shared);
    const auto in_part = binding_conditions ? day.started_in_part() : std::nullopt;
    if (in_part) RC_FAIL(*in_part);
  }
  day.come_to_an_end();
  bool left = false;
  for (const std::string& pod : day.pods()) {
    if (day.cluster.phase(pod) == "Succeeded") continue;
    left = true;
    const auto document = day.cluster.pod(pod);
    RC_LOG(fmt::format("{} {}\n", pod, document ? boost::json::serialize(*document) : "gone"));
    const auto why = day.controller().queue().explain("team-a", pod, day.cluster.now());
    if (why) RC_LOG(why->text + "\n");
  }
  RC_ASSERT(!left);
  day.delete_all();
  RC_ASSERT(day.cluster.held() == 0U);
  RC_ASSERT(day.cluster.api().list("/apis/resource.k8s.io/v1/resourceclaims").empty());
  RC_ASSERT(day.controller().queue().bookings().empty());
  RC_ASSERT(day.controller().queue().entries_kept() == 0U);
}

RC_GTEST_PROP(ClusterQueueGangsProperty, StartAllOrNone, ()) { play(true); }

RC_GTEST_PROP(ClusterQueueGangsProperty, StartInOneSweepWithoutBindingConditions, ()) {
  play(false);
}

}  // namespace
}  // namespace divvy::kube
