#include "kube/lease.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <boost/json.hpp>
#include <future>
#include <memory>
#include <random>
#include <vector>

#include "kube/fake_api.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kLease = "/apis/coordination.k8s.io/v1/namespaces/divvy/leases/controller";

LeaseOptions options(const std::string& identity) {
  return {.space = "divvy", .name = "controller", .identity = identity};
}
std::string holder(FakeApi& api) {
  return std::string(text_at(*api.get(kLease), "spec.holderIdentity"));
}

TEST(Lease, TheFirstOneLeadsAndTheSecondWaits) {
  ManualClock clock;
  FakeApi api(clock);
  LeaseCandidate first(api, clock, options("first"));
  LeaseCandidate second(api, clock, options("second"));
  EXPECT_FALSE(first.is_leader());
  ASSERT_TRUE(first.step());
  ASSERT_TRUE(second.step());
  EXPECT_TRUE(first.is_leader());
  EXPECT_FALSE(second.is_leader());
  for (int i = 0; i < 20; ++i) {
    clock.advance(seconds(2));
    ASSERT_TRUE(first.step());
    ASSERT_TRUE(second.step());
    EXPECT_TRUE(first.is_leader());
    EXPECT_FALSE(second.is_leader());
  }
  const json::object lease = *api.get(kLease);
  EXPECT_EQ(lease.at("spec").at("leaseDurationSeconds"), 15);
  EXPECT_EQ(lease.at("spec").at("leaseTransitions"), 1);
  EXPECT_EQ(text_at(lease, "spec.acquireTime"), "2026-01-01T00:00:00.000000Z");
  EXPECT_EQ(text_at(lease, "spec.renewTime"), "2026-01-01T00:00:40.000000Z");
}

TEST(Lease, OneThatCannotRenewStopsBeforeTheNextBegins) {
  ManualClock clock;
  FakeApi api(clock);
  LeaseCandidate first(api, clock, options("first"));
  LeaseCandidate second(api, clock, options("second"));
  ASSERT_TRUE(first.step());
  ASSERT_TRUE(second.step());
  clock.advance(seconds(10) - milliseconds(1));
  EXPECT_TRUE(first.is_leader());
  clock.advance(milliseconds(1));
  EXPECT_FALSE(first.is_leader());
  clock.advance(seconds(5) - milliseconds(1));
  ASSERT_TRUE(second.step());
  EXPECT_FALSE(second.is_leader());
  clock.advance(milliseconds(1));
  ASSERT_TRUE(second.step());
  EXPECT_TRUE(second.is_leader());
  EXPECT_FALSE(first.step()) << "its version is old";
  ASSERT_TRUE(first.step());
  EXPECT_FALSE(first.is_leader());
  EXPECT_EQ(api.get(kLease)->at("spec").at("leaseTransitions"), 2);
}

TEST(Lease, ReleasedItIsTakenAtOnce) {
  ManualClock clock;
  FakeApi api(clock);
  LeaseCandidate first(api, clock, options("first"));
  LeaseCandidate second(api, clock, options("second"));
  ASSERT_TRUE(first.step());
  ASSERT_TRUE(second.step());
  ASSERT_TRUE(second.release());
  EXPECT_EQ(holder(api), "first") << "only its holder gives it back";
  ASSERT_TRUE(first.release());
  EXPECT_FALSE(first.is_leader());
  ASSERT_TRUE(second.step());
  EXPECT_TRUE(second.is_leader());
}

TEST(Lease, GoesWithItsOwner) {
  ManualClock clock;
  FakeApi api(clock);
  LeaseOptions owned = options("first");
  owned.owner = {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"name", "us"}, {"uid", "7"}};
  LeaseCandidate first(api, clock, owned);
  ASSERT_TRUE(first.step());
  EXPECT_EQ(api.get(kLease)->at("metadata").at("ownerReferences").at(0), owned.owner);
}

TEST(Lease, ALeaseThatSomebodyElseGotIsLostAtOnce) {
  ManualClock clock;
  FakeApi api(clock);
  LeaseCandidate first(api, clock, options("first"));
  ASSERT_TRUE(first.step());
  ASSERT_TRUE(api.patch(kLease, PatchType::kMerge, {{"spec", {{"holderIdentity", "admin"}}}}));
  EXPECT_FALSE(first.step());
  ASSERT_TRUE(first.step());
  EXPECT_FALSE(first.is_leader());
}

TEST(Lease, AnAnswerThatWasLostIsNoLeadershipYet) {
  ManualClock clock;
  FakeApi api(clock);
  LeaseCandidate first(api, clock, options("first"));
  api.lose_next_answer("POST");
  EXPECT_FALSE(first.step());
  EXPECT_FALSE(first.is_leader());
  ASSERT_TRUE(first.step());
  EXPECT_TRUE(first.is_leader()) << "it finds itself in the lease";
}

// Several candidates with clocks that run at different rates, and an API server whose answers take
// any time, fail before or after they are done, while the others go on.
class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed), api_(clock_, seed) {
    for (int i = 0; i < 3; ++i) {
      nodes_.push_back(std::make_unique<Node>(*this, "node-" + std::to_string(i),
                                              800 + static_cast<int>(random_() % 400)));
    }
  }

  void pass(milliseconds time) {
    for (; time.count() > 0; time -= kTick) {
      for (const auto& node : nodes_) node->advance(kTick);
      RC_ASSERT(leaders() <= 1);
      for (const auto& node : nodes_) {
        if (!node->busy && (node->wait -= kTick).count() <= 0) run(*node);
      }
      RC_ASSERT(leaders() <= 1);
    }
  }
  void calm() { stormy_ = false; }
  [[nodiscard]] std::ptrdiff_t leaders() const {
    return std::count_if(nodes_.begin(), nodes_.end(),
                         [](const auto& node) { return node->candidate.is_leader(); });
  }

 private:
  static constexpr milliseconds kTick{250};

  // The way to the API server and back.
  class Way final : public ApiServer {
   public:
    explicit Way(World& world) : world_(world) {}
    Result<json::object> get(const std::string& path) override {
      return on([&] { return world_.api_.get(path); });
    }
    Result<json::object> create(const std::string& path, const json::object& object) override {
      return on([&] { return world_.api_.create(path, object); });
    }
    Result<json::object> replace(const std::string& path, const json::object& object) override {
      return on([&] { return world_.api_.replace(path, object); });
    }
    Result<json::object> patch(const std::string&, PatchType, const json::value&) override {
      return err(ErrorCode::kUnsupported, "not for leases");
    }
    Status remove(const std::string&, const json::object&) override {
      return err(ErrorCode::kUnsupported, "not for leases");
    }
    Status watch(const std::string&, const std::function<bool(WatchEvent)>&,
                 const std::stop_token&) override {
      return err(ErrorCode::kUnsupported, "not for leases");
    }

   private:
    template <typename Ask>
    Result<json::object> on(const Ask& ask) {
      world_.delay();
      if (world_.chance(10)) return err(ErrorCode::kUnavailable, "lost on the way there");
      auto answer = ask();
      world_.delay();
      if (world_.chance(10)) return err(ErrorCode::kUnavailable, "lost on the way back");
      return answer;
    }
    World& world_;
  };

  struct Node {
    Node(World& world, const std::string& name, int thousandths)
        : rate(thousandths), way(world), candidate(way, clock, options(name)) {}
    void advance(milliseconds time) { clock.advance(Duration(time) * rate / 1000); }
    const int rate;
    ManualClock clock;
    Way way;
    LeaseCandidate candidate;
    bool busy = false;
    milliseconds wait{0};
  };

  bool chance(unsigned percent) { return stormy_ && random_() % 100 < percent; }
  void delay() {
    if (chance(30)) pass(kTick * static_cast<int>(random_() % 48));
  }
  void run(Node& node) {
    node.busy = true;
    if (chance(2)) {
      (void)node.candidate.release();
    } else {
      (void)node.candidate.step();
    }
    // Now and then a process stands still for long.
    node.wait = chance(3) ? seconds(20) : milliseconds(2000 + random_() % 300);
    node.busy = false;
  }

  std::mt19937 random_;
  ManualClock clock_;
  FakeApi api_;
  bool stormy_ = true;
  std::vector<std::unique_ptr<Node>> nodes_;
};

TEST(Lease, NeverTwoLeadersAndOneInTheEnd) {
  EXPECT_TRUE(rc::check([] {
    World world(*rc::gen::arbitrary<std::uint32_t>());
    world.pass(seconds(60));
    world.calm();
    world.pass(seconds(45));
    RC_ASSERT(world.leaders() == 1);
  }));
}

TEST(LeaderElection, SaysWhenItLeadsAndWhenNot) {
  ManualClock clock;
  FakeApi api(clock);
  std::promise<void> started;
  std::promise<void> stopped;
  std::atomic<bool> over{false};
  LeaderElection election(
      api, clock, options("first"), [&] { started.set_value(); },
      [&] {
        over = true;
        stopped.set_value();
      });
  started.get_future().wait();
  EXPECT_TRUE(election.is_leader());
  api.set_away(true);
  const TimePoint start = clock.now();
  while (!over && clock.now() - start < seconds(60)) {
    clock.await_waiters(2);
    clock.advance(seconds(1));
    if (!election.is_leader()) stopped.get_future().wait();
  }
  EXPECT_TRUE(over);
  EXPECT_LE(clock.now() - start, seconds(10));
}

TEST(LeaderElection, GivesTheLeaseBackAtItsEnd) {
  ManualClock clock;
  FakeApi api(clock);
  std::promise<void> started;
  std::atomic<int> stops{0};
  {
    const LeaderElection election(
        api, clock, options("first"), [&] { started.set_value(); }, [&] { ++stops; });
    started.get_future().wait();
    EXPECT_EQ(holder(api), "first");
  }
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(holder(api), "");
}

}  // namespace
}  // namespace divvy::kube
