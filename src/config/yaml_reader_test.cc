#include "config/yaml_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace divvy::config {
namespace {

using ::testing::HasSubstr;
using Kind = YamlNode::Kind;

TEST(YamlReader, KnowsThePlaceOfEverything) {
  const YamlDocument document = read_yaml("log:\n  level: debug\n  list: [1, two]\n");
  ASSERT_TRUE(document.problems.empty());
  const YamlNode& root = document.root;
  ASSERT_EQ(root.kind, Kind::kMap);
  EXPECT_EQ(root.keys[0].at, (Place{1, 1}));
  const YamlNode& log = root.items[0];
  EXPECT_EQ(log.keys[0].text, "level");
  EXPECT_EQ(log.keys[0].at, (Place{2, 3}));
  EXPECT_EQ(log.items[0].word, "debug");
  EXPECT_EQ(log.items[0].at, (Place{2, 10}));
  ASSERT_EQ(log.items[1].items.size(), 2U);
  EXPECT_EQ(log.items[1].items[1].at, (Place{3, 13}));
}

TEST(YamlReader, TellsTextInQuotesFromAWord) {
  const YamlDocument document = read_yaml("a: \"true\"\nb: true\nc: ''\nd: ~\ne:\n");
  ASSERT_TRUE(document.problems.empty());
  EXPECT_TRUE(document.root.items[0].quoted);
  EXPECT_FALSE(document.root.items[1].quoted);
  EXPECT_EQ(document.root.items[2].kind, Kind::kWord);
  EXPECT_EQ(document.root.items[3].kind, Kind::kNothing);
  EXPECT_EQ(document.root.items[4].kind, Kind::kNothing);
}

TEST(YamlReader, RefusesAKeyThatIsThereTwiceAndKeepsTheFirst) {
  const YamlDocument document = read_yaml("a: 1\nb: {c: 1}\nb: {c: 2, d: 3}\na: 2\n");
  ASSERT_EQ(document.problems.size(), 2U);
  EXPECT_EQ(document.problems[0].at, (Place{3, 1}));
  EXPECT_THAT(document.problems[0].what, HasSubstr("twice; the first is in line 2"));
  EXPECT_EQ(document.problems[1].at, (Place{4, 1}));
  ASSERT_EQ(document.root.keys.size(), 2U);
  EXPECT_EQ(document.root.items[0].word, "1");
  EXPECT_EQ(document.root.items[1].items.size(), 1U);
}

TEST(YamlReader, DoesNotFollowAliases) {
  // Nine lines that a reader of aliases would make ten to the ninth.
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  const YamlDocument document = read_yaml(bomb);
  ASSERT_FALSE(document.problems.empty());
  EXPECT_THAT(document.problems[0].what, HasSubstr("anchor"));
  EXPECT_THAT(document.problems.back().what, HasSubstr("alias"));
}

TEST(YamlReader, HasLimitsOfSizeAndDepth) {
  EXPECT_THAT(read_yaml(std::string(kMaxYamlBytes + 1, '#')).problems.at(0).what,
              HasSubstr("are the most"));
  EXPECT_TRUE(read_yaml(std::string(kMaxYamlBytes, '#')).problems.empty());
  const std::string deep(100'000, '[');
  EXPECT_THAT(read_yaml(deep).problems.at(0).what, HasSubstr("levels deep"));
}

TEST(YamlReader, SaysWhereTextStopsBeingYaml) {
  const YamlDocument document = read_yaml("log:\n  level: [debug\n");
  ASSERT_EQ(document.problems.size(), 1U);
  EXPECT_GE(document.problems[0].at.line, 2);
  EXPECT_THAT(document.problems[0].what, HasSubstr("this is not YAML"));
}

TEST(YamlReader, RefusesTagsASecondDocumentAndBinary) {
  EXPECT_THAT(read_yaml("a: !!binary x\n").problems.at(0).what, HasSubstr("tag"));
  EXPECT_THAT(read_yaml("a: 1\n---\nb: 2\n").problems.at(0).what, HasSubstr("second document"));
  EXPECT_THAT(read_yaml(std::string_view("a: \0", 4)).problems.at(0).what, HasSubstr("no text"));
  EXPECT_THAT(read_yaml("? [a, b]\n: 1\n").problems.at(0).what, HasSubstr("key must be a word"));
}

TEST(YamlReader, ReadsAnEmptyFile) {
  EXPECT_EQ(read_yaml("").root.kind, Kind::kNothing);
  EXPECT_EQ(read_yaml("# nothing\n").root.kind, Kind::kNothing);
  EXPECT_TRUE(read_yaml("").problems.empty());
}

}  // namespace
}  // namespace divvy::config
