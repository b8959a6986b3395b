// Random days on which pods are moved so that others fit: pods come, end and are deleted, owners
// make those anew that were evicted, budgets keep some, nodes run out of CPUs, words come late,
// answers are lost, the controller is killed at any step. Whatever happens: what claims say never
// adds up to more than a GPU has, nobody is evicted who is not to be moved, no more pods are on
// their way than one, whoever others were moved for has a place when that is over, every pod runs
// in the end, and nothing is left.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "kube/cluster_testing.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/random_events.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::any_events;
using testing::SimulatedCluster;
using testing::TestController;
using Event = testing::RandomEvent;
using Fault = TestController::Fault;

ClusterQueue::Options eager_to_move() {
  ClusterQueue::Options options;
  DefragmentationRules& rules = options.defragmentation;
  rules.mode = Defragmentation::kOn;
  rules.moves_per_hour = 1000;
  rules.least_stay = 10s;
  rules.patience = 0s;
  rules.look_again = 2s;
  rules.rest = 30s;
  return options;
}

class MovingDay {
 public:
  // Without: nothing but what everybody does in their turn, and nobody is killed.
  explicit MovingDay(bool faults) : faults_(faults) {
    owner_ = text_at(*cluster.api().get("/api/v1/namespaces/team-a"), {"metadata", "uid"});
    start_controller();
  }

  void happen(const Event& event) {
    std::uint32_t lot = event.lot;
    const auto draw = [&lot](std::size_t below) {
      const auto drawn = static_cast<std::size_t>(lot % below);
      lot = lot * 1664525U + 1013904223U;
      return drawn;
    };
    const auto any_pod = [&]() -> Pod* {
      return pods_.empty() ? nullptr : &pods_[draw(pods_.size())];
    };
    switch (event.kind) {
      case 0:
      case 1:
      case 2: {
        static const std::vector<std::string> kSizes{"0.3", "0.5", "0.6", "1", "2"};
        Pod pod{.name = fmt::format("pod-{}", pods_.size()), .gpu = kSizes[draw(kSizes.size())]};
        pod.movable = draw(4) != 0;
        pod.owned = draw(5) != 0;
        pod.slots = draw(6) == 0;
        create(pod);
        pods_.push_back(std::move(pod));
        break;
      }
      case 3:
      case 4:
        if (Pod* const pod = any_pod()) finish(*pod);
        break;
      case 5:
        if (Pod* const pod = any_pod()) {
          pod->over = true;
          cluster.delete_pod(pod->now(), faults_ && draw(3) == 0);
        }
        break;
      case 6:
        if (Pod* const pod = any_pod()) cluster.api().kept_by_budget = {pod->now()};
        break;
      case 7:
        cluster.api().kept_by_budget.clear();
        break;
      case 8:
      case 9:
      case 10:
      case 11:
        make_anew();
        round();
        break;
      case 12:
        cluster.clock().advance(std::chrono::seconds(draw(40)));
        cluster.report_nodes();
        break;
      case 13:
        cluster.schedule();
        break;
      case 14:
        cluster.run_kubelets();
        break;
      case 15:
        cluster.manage();
        break;
      case 16:
        make_anew();
        break;
      case 17:
        controller_->hear_all();
        break;
      case 18:
        decide();
        break;
      case 19:
        for (std::size_t i = draw(6); i < 6 && controller_->actions() > 0; ++i) {
          controller_->act(draw(controller_->actions()));
        }
        break;
      case 20:
        if (faults_ && controller_->actions() > 0) {
          controller_->act(draw(controller_->actions()),
                           draw(2) == 0 ? Fault::kAnswerLost : Fault::kNotDone);
        }
        break;
      case 21:
        if (faults_) controller_->hear(draw(5), 1 + draw(4));
        break;
      case 22:
        if (faults_ && draw(3) == 0) start_controller();
        break;
      case 23: {
        if (!faults_) break;
        const std::string& node = cluster.node_names()[draw(2)];
        cluster.room[node] = cluster.room[node] == 0 ? 3 : 0;
        break;
      }
      default:
        break;
    }
  }

  // What must hold at every moment; the sentence that does not.
  [[nodiscard]] std::optional<std::string> wrong() {
    if (auto claims = cluster.overbooked_claims()) return claims;
    if (auto shared = cluster.shared_devices()) return shared;
    std::size_t on_their_way = 0;
    for (const Pod& pod : pods_) {
      const auto document = cluster.pod(pod.now());
      const bool going =
          !document || !text_at(*document, {"metadata", "deletionTimestamp"}).empty();
      if (!going || pod.over) continue;
      if (!pod.movable || !pod.owned) return pod.now() + " may not be moved, and was evicted";
      if (document) ++on_their_way;
    }
    // One that was killed may have begun one more.
    if (!faults_ && on_their_way > 1) return fmt::format("{} pods are evicted", on_their_way);
    return std::exchange(not_placed_, std::nullopt);
  }

  void come_to_an_end() {
    cluster.api().kept_by_budget.clear();
    for (auto& [node, room] : cluster.room) room = 1000;
    for (int i = 0; i < 600; ++i) {
      make_anew();
      controller_->work();
      cluster.settle();
      cluster.clock().advance(5s);
      bool all_ended = true;
      for (Pod& pod : pods_) {
        const std::string phase = cluster.phase(pod.now());
        if (phase == "Running") finish(pod);
        all_ended = all_ended && (phase.empty() ? pod.over : phase == "Succeeded");
      }
      if (all_ended) break;
    }
    controller_->work();
  }

  [[nodiscard]] std::vector<std::string> left_behind() {
    std::vector<std::string> names;
    for (const Pod& pod : pods_) {
      const std::string phase = cluster.phase(pod.now());
      if (phase.empty() ? !pod.over : phase != "Succeeded") names.push_back(pod.now());
    }
    return names;
  }

  void delete_all() {
    for (const Pod& pod : pods_) {
      for (std::uint32_t i = 0; i <= pod.made; ++i) cluster.delete_pod(pod.named(i));
    }
    for (int i = 0; i < 8; ++i) {
      cluster.settle();
      cluster.clock().advance(180s);
      cluster.report_nodes();
      controller_->work();
    }
  }

  [[nodiscard]] TestController& controller() { return *controller_; }
  SimulatedCluster cluster{2, 2};
  ClusterQueue::Moves seen = {};  // of all controllers so far

 private:
  // What somebody wants to run, by the name of the pod that it is now.
  struct Pod {
    std::string name;
    std::string gpu;
    bool movable = true;
    bool owned = true;
    bool slots = false;
    bool over = false;  // nobody makes it anew
    std::uint32_t made = 0;

    [[nodiscard]] std::string named(std::uint32_t i) const { return fmt::format("{}-{}", name, i); }
    [[nodiscard]] std::string now() const { return named(made); }
  };

  void create(const Pod& pod) {
    testing::TestPod made{.name = pod.now(), .gpu = pod.gpu, .slots = pod.slots};
    if (pod.owned) {
      made.metadata["ownerReferences"] = json::array{json::object{{"apiVersion", "apps/v1"},
                                                                  {"kind", "ReplicaSet"},
                                                                  {"name", pod.name},
                                                                  {"uid", owner_},
                                                                  {"controller", true}}};
    }
    if (pod.movable) made.metadata["annotations"] = json::object{{kMovableAnnotation, "true"}};
    cluster.create_pod(made);
  }
  void finish(Pod& pod) {
    if (cluster.phase(pod.now()) != "Running") return;
    pod.over = true;
    cluster.finish_pod(pod.now());
  }
  void make_anew() {
    for (Pod& pod : pods_) {
      const auto document = cluster.pod(pod.now());
      const bool gone = !document || !text_at(*document, {"metadata", "deletionTimestamp"}).empty();
      if (!gone || pod.over || !pod.owned) continue;
      ++pod.made;
      create(pod);
    }
  }
  void round() {
    for (int i = 0; i < 3; ++i) {
      controller_->hear_all();
      decide();
      while (controller_->actions() > 0) controller_->act(0);
      cluster.settle();
      cluster.clock().advance(2s);
    }
  }
  // Whoever others were moved for has its place when that is done.
  void decide() {
    const std::uint64_t finished = controller_->queue().moves().finished;
    const auto planned = controller_->queue().planned_moves();
    controller_->decide();
    if (controller_->queue().moves().finished == finished || !planned) return;
    const std::string name = planned->pod.substr(planned->pod.find('/') + 1);
    const auto report = controller_->queue().explain("team-a", name, cluster.now());
    if (!report || report->node.empty()) not_placed_ = planned->pod + " has no place after moves";
  }
  void start_controller() {
    if (controller_) count();
    controller_ = std::make_unique<TestController>(cluster, ++seeds_, eager_to_move());
  }

 public:
  void count() {
    const ClusterQueue::Moves moves = controller_->queue().moves();
    seen.pods += moves.pods;
    seen.finished += moves.finished;
    seen.given_up += moves.given_up;
  }

 private:
  bool faults_;
  std::string owner_;
  std::unique_ptr<TestController> controller_;
  std::uint64_t seeds_ = 0;
  std::vector<Pod> pods_;
  std::optional<std::string> not_placed_;
};

std::optional<std::string> wrong_at_the_end(MovingDay& day) {
  day.come_to_an_end();
  std::string left;
  for (const std::string& pod : day.left_behind()) {
    const auto why = day.controller().queue().explain("team-a", pod, day.cluster.now());
    left += fmt::format("{} is left: {}\n", pod, why ? why->text : "nobody knows it");
  }
  if (!left.empty()) return left;
  day.delete_all();
  if (day.cluster.held() != 0) return "a node holds something";
  if (!day.cluster.api().list("/api/v1/pods").empty()) return "there are pods";
  if (!day.controller().queue().bookings().empty()) return "something is booked";
  if (day.controller().queue().entries_kept() != 0) return "the queue keeps something";
  day.count();
  return std::nullopt;
}

RC_GTEST_PROP(ClusterQueueMovesProperty, NothingIsLostWhateverGoesWrong, ()) {
  MovingDay day(true);
  for (const Event& event : any_events()) {
    day.happen(event);
    if (const auto wrong = day.wrong()) RC_FAIL(*wrong);
  }
  if (const auto wrong = wrong_at_the_end(day)) RC_FAIL(*wrong);
}

// The same days each time, so that it is known that pods are moved in them.
TEST(ClusterQueueMovesProperty, WhoeverOthersAreMovedForRuns) {
  ClusterQueue::Moves all;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    MovingDay day(false);
    for (int i = 0; i < 140; ++i) {
      day.happen({static_cast<std::uint8_t>(random() % 20), static_cast<std::uint32_t>(random())});
      const auto wrong = day.wrong();
      ASSERT_FALSE(wrong) << *wrong << ", seed " << seed << ", event " << i;
    }
    const auto wrong = wrong_at_the_end(day);
    ASSERT_FALSE(wrong) << *wrong << ", seed " << seed;
    all.pods += day.seen.pods;
    all.finished += day.seen.finished;
  }
  EXPECT_GT(all.finished, 10U);
}

}  // namespace
}  // namespace divvy::kube
