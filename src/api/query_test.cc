#include "api/query.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

std::string refusal(const auto& result) { return result ? "it was taken" : result.error().message; }

TEST(Query, ReadsNamesAndValues) {
  auto query = Query::parse("name=a+b%2Fc&state=queued,running&limit=10&wait=true&since=1500&flag");
  ASSERT_TRUE(query.has_value()) << query.error().message;
  EXPECT_EQ(query->text("name"), "a b/c");
  EXPECT_EQ(query->list("state"), (std::vector<std::string>{"queued", "running"}));
  EXPECT_EQ(query->number("limit").value(), 10U);
  EXPECT_TRUE(query->flag("wait").value());
  EXPECT_EQ(query->time("since").value(), WallTime(std::chrono::milliseconds(1500)));
  EXPECT_EQ(query->text("flag"), "");
  EXPECT_EQ(query->text("missing"), std::nullopt);
  EXPECT_TRUE(query->nothing_left());
  EXPECT_TRUE(Query::parse("")->nothing_left());
}

TEST(Query, RefusesWhatItDoesNotUnderstandAndSaysWhat) {
  EXPECT_NE(refusal(Query::parse("a=1&a=2")).find("twice"), std::string::npos);
  for (const char* text : {"a=%", "a=%4", "a=%zz", "%g0=1"}) {
    EXPECT_NE(refusal(Query::parse(text)).find("hexadecimal"), std::string::npos) << text;
  }
  auto query = Query::parse("limit=-1&flag=yes&since=99999999999999999999&onwer=x").value();
  EXPECT_EQ(refusal(query.number("limit")),
            "\"limit\" has to be a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(refusal(query.flag("flag")), "\"flag\" has to be true or false");
  EXPECT_FALSE(query.time("since").has_value());
  (void)query.text("owner");
  EXPECT_EQ(refusal(query.nothing_left()),
            "there is no \"onwer\" to ask for here; did you mean \"owner\"?");
}

}  // namespace
}  // namespace divvy::api
