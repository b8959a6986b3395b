#include "kubelet/gpu_node.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <future>

#include "base/log.h"
#include "kube/json_view.h"
#include "kubelet/testing.h"

namespace divvy::kubelet {
namespace {

namespace json = boost::json;
using testing::kNode;
using testing::test_slice;

constexpr const char* kPath = "/apis/divvy.dev/v1/gpunodes/gpu-1";

class GpuNodeTest : public ::testing::Test {
 protected:
  GpuNodeTest() {
    agent::MachineState state;
    agent::MachineGpu gpu{.uuid = model::test_uuid(0)};
    gpu.model = "H100";
    gpu.memory = gib(80);
    state.gpus = {gpu};
    view_.set_state(state);
  }
  void hold() {
    ClaimRecord record{.uid = "u-1", .space = "a", .name = "c", .pod = "p"};
    record.slices = {{"main", "s-1", test_slice(0, 300)}};
    view_.set_claims({{"u-1", record}});
  }
  [[nodiscard]] json::object written() { return api_.get(kPath).value(); }

  const LogCapture quiet_{LogLevel::kOff};
  ManualClock clock_;
  kube::FakeApi api_;
  NodeView view_{kNode};
  GpuNodePublisher publisher_{{"1.2.3", true}, api_, view_, clock_};
};

TEST_F(GpuNodeTest, IsMadeAndGoesWithItsNode) {
  const auto node = api_.put("/api/v1/nodes", {{"metadata", json::object{{"name", kNode}}}});
  hold();
  ASSERT_TRUE(publisher_.publish(view_.now()));
  const json::object object = written();
  EXPECT_EQ(kube::text_at(object, {"status", "agentVersion"}), "1.2.3");
  EXPECT_EQ(kube::text_at(object, {"status", "state", "node"}), kNode);
  const auto& gpus = kube::array_at(object, {"status", "state", "gpus"});
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(kube::text_at(gpus[0].as_object(), {"uuid"}), model::test_uuid(0).str());
  const auto& held = kube::array_at(object, {"status", "held"});
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(kube::text_at(held[0].as_object(), {"claimUid"}), "u-1");
  EXPECT_EQ(kube::text_at(held[0].as_object(), {"pod"}), "p");
  const auto& slices = kube::array_at(held[0].as_object(), {"slices"});
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(kube::read_slice(slices[0].as_object())->slice, test_slice(0, 300));
  const auto& owners = kube::array_at(object, {"metadata", "ownerReferences"});
  ASSERT_EQ(owners.size(), 1U);
  EXPECT_EQ(kube::text_at(owners[0].as_object(), {"uid"}),
            kube::text_at(node, {"metadata", "uid"}));
}

TEST_F(GpuNodeTest, IsWrittenAgainAfterAConflictAndAfterItWasDeleted) {
  ASSERT_TRUE(publisher_.publish(view_.now()));
  json::object other = written();
  other["metadata"].as_object()["labels"] = json::object{{"a", "b"}};
  ASSERT_TRUE(api_.replace(kPath, other));
  hold();
  ASSERT_TRUE(publisher_.publish(view_.now()));
  EXPECT_EQ(kube::array_at(written(), {"status", "held"}).size(), 1U);
  EXPECT_EQ(kube::text_at(written(), {"metadata", "labels", "a"}), "b");
  ASSERT_TRUE(api_.remove(kPath, {}));
  ASSERT_TRUE(publisher_.publish(view_.now()));
  EXPECT_EQ(kube::array_at(written(), {"status", "held"}).size(), 1U);
}

TEST_F(GpuNodeTest, SaysThatTheServerIsAway) {
  api_.set_away(true);
  EXPECT_EQ(publisher_.publish(view_.now()).error().code, ErrorCode::kUnavailable);
  api_.set_away(false);
  EXPECT_TRUE(publisher_.publish(view_.now()));
}

TEST_F(GpuNodeTest, IsWrittenWhenSomethingChanges) {
  std::promise<void> first;
  std::promise<void> second;
  int writes = 0;
  api_.set_fault([&](const std::string& verb, const std::string& path) -> std::optional<Error> {
    if (verb == "PUT" && path == std::string(kPath) + "/status") {
      ++writes;
      if (writes == 1) first.set_value();
      if (writes == 2) second.set_value();
    }
    return std::nullopt;
  });
  publisher_.start();
  first.get_future().wait();
  hold();
  second.get_future().wait();
  view_.stop();
}

TEST(NodeView, TellsOnlyWhatIsDifferent) {
  NodeView view(kNode);
  const auto before = view.now().version;
  view.set_claims({});
  EXPECT_EQ(view.now().version, before);
  ClaimRecord record{.uid = "u-1"};
  record.slices = {{"main", "s-1", test_slice(0, 300)}};
  view.set_claims({{"u-1", record}});
  EXPECT_NE(view.now().version, before);
}

TEST(NodeView, AGpuThatFailedMakesItsDevicesUnhealthy) {
  NodeView view(kNode);
  ClaimRecord record{.uid = "u-1"};
  record.slices = {{"main", "s-1", test_slice(0, 300)},
                   {"main", "s-2", test_slice(1, 300)},
                   {"main", "s-3", test_slice(2, 300)}};
  view.set_claims({{"u-1", record}});
  agent::MachineState state;
  for (std::uint64_t i = 0; i < 2; ++i) {
    agent::MachineGpu gpu{.uuid = model::test_uuid(i)};
    gpu.index = static_cast<std::uint32_t>(i);
    state.gpus.push_back(gpu);
  }
  // It gets no new work, which is nothing to those who have it.
  state.gpus[0].resting = "is cordoned";
  state.gpus[1].resting = "fell off the bus (Xid 79)";
  state.gpus[1].lost = true;
  view.hear(agent::StateChanged{state});
  const auto health = health_of(view.now());
  ASSERT_EQ(health.size(), 3U);
  EXPECT_EQ(health[0], (DeviceHealth{"s-1", true, ""}));
  EXPECT_EQ(health[1], (DeviceHealth{"s-2", false, "GPU 1 fell off the bus (Xid 79)"}));
  EXPECT_FALSE(health[2].healthy);
}

}  // namespace
}  // namespace divvy::kubelet
