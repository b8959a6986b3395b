#include <gtest/gtest.h>

#include "api/what_if_desk.h"
#include "api/what_if_request.h"
#include "jobs/testing.h"

namespace divvy::api {
namespace {

jobs::Snapshot two_nodes() {
  jobs::testing::Desk desk({}, jobs::testing::fleet(2, 2));
  return desk.queue().snapshot(10);
}

Result<jobs::Snapshot> changed(std::string_view body) {
  DIVVY_TRY(request, parse_what_if_request(body));
  return with_changes(two_nodes(), request, {"default", "research"});
}

TEST(WhatIfRequest, AddsNodesThatAreLikeOthers) {
  const auto made = changed(R"({"add":[{"count":2,"gpus":3,"like":"node1","memory":"10GiB"}]})");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->fleet.nodes.size(), 4U);
  EXPECT_EQ(made->fleet.nodes[3].name, "added-2");
  ASSERT_EQ(made->fleet.nodes[3].gpus.size(), 3U);
  EXPECT_EQ(made->fleet.nodes[3].gpus[2].index, 2U);
  EXPECT_EQ(made->fleet.nodes[3].gpus[2].device.memory, gib(10));
  EXPECT_NE(made->fleet.nodes[2].gpus[0].uuid, made->fleet.nodes[3].gpus[0].uuid);
}

TEST(WhatIfRequest, PutsGpusIntoANodeAndTakesOthersAway) {
  const auto made = changed(R"({"add":[{"to":"node0","gpus":2}],"without":["node1","node0/1"]})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->fleet.nodes[0].gpus.size(), 4U);
  EXPECT_TRUE(made->fleet.nodes[0].gpus[1].lost);
  EXPECT_FALSE(made->fleet.nodes[0].gpus[2].lost);
  EXPECT_TRUE(made->fleet.nodes[1].lost);
}

TEST(WhatIfRequest, ChangesOnlyTheFieldsOfAQueueThatAreNamed) {
  jobs::Snapshot before = two_nodes();
  before.settings.queues = {jobs::testing::queue("research", 2'000, false)};
  const auto request = parse_what_if_request(
      R"({"queues":{"research":{"weight":3}},"users":{"ada":{"jobs":2}},"preemption":false})");
  ASSERT_TRUE(request) << request.error().message;
  const auto made = with_changes(before, *request, {"research"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->settings.queues[0].weight, 3U);
  EXPECT_EQ(made->settings.queues[0].quota.share, Share(2'000));
  EXPECT_FALSE(made->settings.queues[0].may_borrow);
  EXPECT_EQ(made->settings.users.at(0).most.jobs, 2U);
  EXPECT_FALSE(made->settings.preemption);
}

TEST(WhatIfRequest, RefusesWhatIsNotThere) {
  for (const std::string_view body :
       {R"({"add":[{"like":"other"}]})", R"({"add":[{"count":0}]})", R"({"add":[{"gpus":17}]})",
        R"({"add":[{"to":"node0","gpus":15}]})", R"({"without":["node0/7"]})",
        R"({"without":["x"]})", R"({"policy":"best"})", R"({"queues":{"nobody":{"weight":2}}})",
        R"({"queues":{"research":{"wieght":2}}})", R"({"queues":{"research":3}})", R"({"ad":[]})",
        R"([])", R"({"add":[{"count":257}]})"}) {
    const auto made = changed(body);
    EXPECT_FALSE(made) << body;
    EXPECT_TRUE(made || !made.error().message.empty());
  }
  EXPECT_TRUE(changed(""));
}

TEST(WhatIfDesk, HasFewPlacesAndOneForEachPerson) {
  WhatIfDesk desk;
  {
    const auto ada = desk.enter("ada");
    ASSERT_TRUE(ada);
    EXPECT_FALSE(desk.enter("ada"));
    const auto bob = desk.enter("bob");
    ASSERT_TRUE(bob);
    EXPECT_FALSE(desk.enter("cleo"));
  }
  EXPECT_TRUE(desk.enter("ada"));
}

}  // namespace
}  // namespace divvy::api
