// Lines of output as Kubernetes sends them, with a time before each.
#include "kube_api/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/stable_order.h"

namespace divvy::kube_api {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> all;
  for (const LogLine& line : lines) all.push_back(line.text);
  return all;
}

TEST(LineSplitter, GivesTheSameLinesHoweverTheTextIsCut) {
  const std::string text =
      "2026-01-01T00:00:06Z one\n2026-01-01T00:00:07Z \n2026-01-01T00:00:08Z x";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    LineSplitter splitter(0);
    std::vector<LogLine> lines;
    for (std::size_t at = 0; at < text.size(); at += size) {
      splitter.take(std::string_view(text).substr(at, size), lines);
    }
    splitter.finish(lines);
    EXPECT_THAT(texts(lines), ElementsAre("one", "", "x"));
  }
}

TEST(LineSplitter, UnderstandsTheTimeZonesOfNodes) {
  LineSplitter utc(0);
  LineSplitter east(1);
  std::vector<LogLine> lines;
  east.take("2026-01-01T02:00:06.5+02:00 second\n2026-01-01T02:00:08.000000001+02:00 fourth\n",
            lines);
  utc.take("2026-01-01T00:00:06.1Z first\n2026-01-01T00:00:07Z third\n", lines);
  sort_stably(lines, &LogLine::at);
  EXPECT_THAT(texts(lines), ElementsAre("first", "second", "third", "fourth"));
  EXPECT_EQ(to_text(lines[1], {.timestamps = true}), "2026-01-01T02:00:06.5+02:00 second\n");
}

TEST(LineSplitter, KeepsTheRestOfALineThatIsTooLongBehindItsBeginning) {
  LineSplitter splitter(0);
  std::vector<LogLine> lines;
  splitter.take("2026-01-01T00:00:06Z before\n2026-01-01T00:00:07Z ", lines);
  splitter.take(std::string(LineSplitter::kLongest, 'x'), lines);
  splitter.take("rest\n2026-01-01T00:00:08Z after\n", lines);
  sort_stably(lines, &LogLine::at);
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[0].text, "before");
  EXPECT_EQ(lines[2].text, "rest");
}

TEST(LineSplitter, LeavesOutWhatCameAlreadyWhenTheSameComesAgain) {
  LineSplitter splitter(0);
  std::vector<LogLine> lines;
  const std::string begin =
      "2026-01-01T00:00:06Z a\n2026-01-01T00:00:07Z b\n2026-01-01T00:00:07Z c\n";
  splitter.take(begin + "2026-01-01T00:00:08Z only the beg", lines);
  splitter.again();
  splitter.take(begin, lines);
  EXPECT_THAT(texts(lines), ElementsAre("a", "b", "c"));
  splitter.take("2026-01-01T00:00:07Z d\n2026-01-01T00:00:08Z only the beginning came\n", lines);
  EXPECT_THAT(texts(lines), ElementsAre("a", "b", "c", "d", "only the beginning came"));
  splitter.again();
  splitter.take("2026-01-01T00:00:08Z only the beginning came\n2026-01-01T00:00:09Z e\n", lines);
  EXPECT_THAT(texts(lines), ElementsAre("a", "b", "c", "d", "only the beginning came", "e"));
}

}  // namespace
}  // namespace divvy::kube_api
