#include "model/where.h"

#include <gtest/gtest.h>

namespace divvy::model {
namespace {

std::string refused(const Where& where) {
  const Status checked = check(where);
  return checked ? "accepted" : checked.error().message;
}

TEST(Where, EveryClosenessIsReadAsItIsWritten) {
  for (int i = 0; i <= static_cast<int>(Closeness::kNvlink); ++i) {
    const auto closeness = static_cast<Closeness>(i);
    EXPECT_EQ(parse_closeness(to_string(closeness)), closeness);
  }
  EXPECT_EQ(parse_closeness("rak").error().message,
            "\"rak\" is no nearness; write any, zone, rack, node, numa, pcie or nvlink");
}

TEST(Where, TakesWhatMakesSense) {
  EXPECT_EQ(refused({}), "accepted");
  EXPECT_EQ(refused({.nodes = {"a"},
                     .nodes_denied = {"b"},
                     .node_labels = {{"pool", "train"}, {"spot", ""}},
                     .tolerations = {"dedicated"},
                     .gpus_near = {Closeness::kPcie, true},
                     .members_near = {Closeness::kZone, false},
                     .spread = Spread{Closeness::kRack, 2}}),
            "accepted");
}

TEST(Where, RefusesWhatCannotBe) {
  EXPECT_EQ(refused({.nodes = {"a", " "}}), "where.nodes[1]: \" \" is no name of a node");
  EXPECT_EQ(refused({.nodes_denied = {"a\nb"}}),
            "where.nodes_denied[0]: \"a\\nb\" is no name of a node");
  EXPECT_EQ(refused({.tolerations = {std::string(254, 'x')}}).substr(0, 24),
            "where.tolerations[0]: \"x");
  EXPECT_EQ(refused({.nodes = {"a"}, .nodes_denied = {"a"}}),
            "where.nodes_denied: a is in nodes, too; take it off one list");
  EXPECT_EQ(refused({.node_labels = {{"", "train"}}}),
            "where.node_labels: \"=train\" is no label of a node");
  EXPECT_EQ(refused({.nodes = std::vector<std::string>(1001, "a")}),
            "where.nodes: 1001 names are more than the 1000 that are allowed");
  EXPECT_EQ(refused({.gpus_near = {Closeness::kRack, false}}),
            "where.gpus_near: the GPUs of one member are on one node already; ask for numa, pcie "
            "or nvlink");
  EXPECT_EQ(refused({.members_near = {Closeness::kNvlink, true}}),
            "where.members_near: members can be near each other by node, rack or zone, not by "
            "nvlink");
  EXPECT_EQ(refused({.spread = Spread{Closeness::kNode, 0}}),
            "where.spread: it takes a node, rack or zone and at least 1 member in each");
  EXPECT_EQ(refused({.spread = Spread{Closeness::kNuma, 1}}),
            "where.spread: it takes a node, rack or zone and at least 1 member in each");
}

}  // namespace
}  // namespace divvy::model
