#include "kube/json_patch.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

namespace json = boost::json;

std::string patched(std::string_view document, std::string_view patch) {
  const auto result = apply_json_patch(json::parse(document), json::parse(patch));
  return result ? json::serialize(*result) : "refused: " + result.error().message;
}
std::string merged(std::string_view document, std::string_view patch) {
  return json::serialize(apply_merge_patch(json::parse(document), json::parse(patch)));
}

TEST(JsonPatch, DoesTheSixOperations) {
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"add","path":"/b","value":[2]}])"),
            R"({"a":1,"b":[2]})");
  EXPECT_EQ(patched(R"([1,3])", R"([{"op":"add","path":"/1","value":2}])"), "[1,2,3]");
  EXPECT_EQ(patched(R"([1])", R"([{"op":"add","path":"/-","value":2}])"), "[1,2]");
  EXPECT_EQ(patched(R"({"a":[1,2]})", R"([{"op":"remove","path":"/a/0"}])"), R"({"a":[2]})");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"replace","path":"/a","value":null}])"),
            R"({"a":null})");
  EXPECT_EQ(patched(R"({"a":{"b":1}})", R"([{"op":"move","from":"/a/b","path":"/c"}])"),
            R"({"a":{},"c":1})");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"copy","from":"/a","path":"/b"}])"),
            R"({"a":1,"b":1})");
  EXPECT_EQ(patched(R"({"a":{"b":[1]}})",
                    R"([{"op":"test","path":"/a","value":{"b":[1]}},{"op":"remove","path":"/a"}])"),
            "{}");
  EXPECT_EQ(patched("1", R"([{"op":"add","path":"","value":2}])"), "2");
}

TEST(JsonPatch, NamesWithSlashesAndTildes) {
  EXPECT_EQ(json_pointer({"metadata", "annotations", "divvy.dev/a~b"}),
            "/metadata/annotations/divvy.dev~1a~0b");
  const std::string at = json_pointer({"divvy.dev/a~b"});
  EXPECT_EQ(patched("{}", R"([{"op":"add","path":")" + at + R"(","value":1}])"),
            R"({"divvy.dev/a~b":1})");
}

TEST(JsonPatch, RefusesWithTheNumberOfTheOperation) {
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"test","path":"/a","value":2}])"),
            "refused: operation 1: the test of '/a' failed");
  EXPECT_EQ(patched("{}", R"([{"op":"add","path":"/a","value":1},{"op":"remove","path":"/b"}])"),
            "refused: operation 2: there is nothing at '/b'");
  for (const char* patch :
       {"{}", "[1]", "[{}]", R"([{"op":"add","path":"/a"}])",
        R"([{"op":"add","path":"a","value":1}])", R"([{"op":"spoil","path":"/a","value":1}])",
        R"([{"op":"add","path":"/a/b","value":1}])", R"([{"op":"add","path":"/l/01","value":1}])",
        R"([{"op":"add","path":"/l/9","value":1}])", R"([{"op":"remove","path":"/l/-"}])",
        R"([{"op":"remove","path":"/~2"}])", R"([{"op":"copy","from":"/x","path":"/y"}])",
        R"([{"op":"move","from":"/l","path":"/l/0"}])",
        R"([{"op":"replace","path":"/x","value":1}])"}) {
    EXPECT_TRUE(patched(R"({"l":[1,2]})", patch).starts_with("refused")) << patch;
  }
}

// The examples of RFC 7386, appendix A.
TEST(MergePatch, DoesAsTheStandardSays) {
  EXPECT_EQ(merged(R"({"a":"b"})", R"({"a":"c"})"), R"({"a":"c"})");
  EXPECT_EQ(merged(R"({"a":"b","b":"c"})", R"({"a":null})"), R"({"b":"c"})");
  EXPECT_EQ(merged(R"({"a":["b"]})", R"({"a":"c"})"), R"({"a":"c"})");
  EXPECT_EQ(merged(R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})"), R"({"a":{"b":"d"}})");
  EXPECT_EQ(merged(R"(["a","b"])", R"(["c"])"), R"(["c"])");
  EXPECT_EQ(merged(R"({"a":"foo"})", "null"), "null");
  EXPECT_EQ(merged(R"({"e":null})", R"({"a":1})"), R"({"e":null,"a":1})");
  EXPECT_EQ(merged(R"([1,2])", R"({"a":"b","c":null})"), R"({"a":"b"})");
  EXPECT_EQ(merged("{}", R"({"a":{"bb":{"ccc":null}}})"), R"({"a":{"bb":{}}})");
}

}  // namespace
}  // namespace divvy::kube
