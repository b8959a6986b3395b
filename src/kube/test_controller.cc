// TestController of cluster_testing.h.
#include <array>
#include <boost/json.hpp>

#include "base/check.h"
#include "kube/cluster_testing.h"

namespace divvy::kube::testing {
namespace {

namespace json = boost::json;

// By ObjectKind.
constexpr std::array kCollections{"/api/v1/pods",
                                  "/apis/resource.k8s.io/v1/resourceclaims",
                                  "/apis/divvy.dev/v1/gpunodes",
                                  "/api/v1/nodes",
                                  "/api/v1/namespaces",
                                  "/apis/divvy.dev/v1/queues",
                                  "/apis/divvy.dev/v1/policies",
                                  "/apis/divvy.dev/v1/capacityplans"};

}  // namespace

TestController::TestController(SimulatedCluster& cluster, std::uint64_t seed,
                               ClusterQueue::Options options)
    : cluster_(cluster) {
  options.seed = seed;
  auto made = ClusterQueue::create(std::move(options));
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
  queue_ = *std::move(made);
  // A list first: what there is, and from then on the changes.
  for (std::size_t kind = 0; kind < kCollections.size(); ++kind) {
    for (const json::object& object : cluster_.api().list(kCollections[kind])) {
      const Status seen = queue_->see(static_cast<ObjectKind>(kind), object);
      DIVVY_CHECK(seen.has_value(), "{}", seen.error().message);
    }
    heard_[kind] = cluster_.api().store().changes(kCollections[kind]).size();
  }
}

void TestController::hear(std::size_t kind, std::size_t most) {
  const auto& changes = cluster_.api().store().changes(kCollections[kind]);
  for (; most > 0 && heard_[kind] < changes.size(); --most) {
    const FakeStore::Change& change = changes[heard_[kind]++];
    if (change.after == nullptr) {
      queue_->gone(static_cast<ObjectKind>(kind), *change.before);
      continue;
    }
    const Status seen = queue_->see(static_cast<ObjectKind>(kind), *change.after);
    DIVVY_CHECK(seen.has_value(), "{}", seen.error().message);
  }
}

void TestController::hear_all() {
  for (std::size_t kind = 0; kind < kCollections.size(); ++kind) hear(kind, SIZE_MAX);
}

void TestController::decide() {
  for (Action& action : queue_->decide(cluster_.now())) actions_.push_back(std::move(action));
}

void TestController::act(std::size_t which, Fault fault) {
  const Action action = actions_[which];
  actions_.erase(actions_.begin() + static_cast<std::ptrdiff_t>(which));
  Result<json::object> result = err(ErrorCode::kUnavailable, "the connection broke");
  if (fault != Fault::kNotDone) {
    Result<json::object> answer = carry_out(cluster_.api(), action);
    if (answer) done.push_back(action.kind);
    if (fault == Fault::kAnswerLate) {
      late_.push_back({action.number, std::move(answer)});
      return;
    }
    if (fault == Fault::kNone) result = std::move(answer);
  }
  queue_->done(action.number, result, cluster_.now());
}

void TestController::answer() {
  if (late_.empty()) return;
  const Late late = std::move(late_.front());
  late_.pop_front();
  queue_->done(late.number, late.answer, cluster_.now());
}

void TestController::work() {
  for (int i = 0; i < 1000; ++i) {
    while (!late_.empty()) answer();
    hear_all();
    decide();
    if (actions_.empty()) return;
    while (!actions_.empty()) act(0);
  }
  DIVVY_CHECK(false, "the controller comes to no end");
}

}  // namespace divvy::kube::testing
