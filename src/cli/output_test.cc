#include "cli/output.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

namespace divvy::cli {
namespace {

constexpr OutputFormat kAll[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kName};

TEST(Output, ReadsAFormat) {
  EXPECT_EQ(parse_output_format("json", kAll).value(), OutputFormat::kJson);
}

TEST(Output, NamesTheFormatsThatItTakes) {
  EXPECT_EQ(parse_output_format("jason", kAll).error().message,
            "there is no output format \"jason\" (did you mean json?); -o takes table, json, name");
  EXPECT_EQ(parse_output_format("yaml", kAll).error().message,
            "there is no output format \"yaml\"; -o takes table, json, name");
}

TEST(Output, WritesJsonWithPlainListsOnOneLine) {
  EXPECT_EQ(to_pretty_json(R"({"a":{"b":null,"c":[]},"rows":[["X","NV18"],["NV18","X"]],"e":{}})"),
            R"({
  "a": {
    "b": null,
    "c": []
  },
  "rows": [
    ["X", "NV18"],
    ["NV18", "X"]
  ],
  "e": {}
}
)");
}

TEST(Output, WritesYaml) {
  EXPECT_EQ(to_yaml(R"({"kind":"GpuList","node":{"hostname":"box","version":"13.0"},
                        "items":[{"index":0,"name":null,"peers":[{"index":1}]},{"index":1}],
                        "empty":[],"matrix":[["X"]]})"),
            R"(kind: GpuList
node:
  hostname: box
  version: "13.0"
items:
  - index: 0
    name: null
    peers:
      - index: 1
  - index: 1
empty: []
matrix:
  - ["X"]
)");
}

TEST(Output, QuotesYamlThatWouldBeReadAsSomethingElse) {
  for (const std::string text :
       {"no", "Yes", "null", "1e3",   "12:30", "0x10", "- a", "a: b", "#x",  "",
        " a", "a ",  "~",    "GPU-0", "é",     "a\nb", "\"",  "\\",   "a'b", "True"}) {
    std::string document = "{\"v\":\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') document += '\\';
      document += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    document += "\"}";
    const YAML::Node value = YAML::Load(to_yaml(document))["v"];
    EXPECT_TRUE(value.IsScalar()) << text;
    EXPECT_EQ(value.as<std::string>(), text);
    // yaml-cpp marks quoted text with "!" and leaves plain words without a tag.
    bool is_bool = false;
    if (value.Tag() != "!") {
      EXPECT_FALSE(YAML::convert<bool>::decode(value, is_bool)) << text;
    }
  }
}

TEST(Output, ShowsNoCharacterThatDeceivesAReader) {
  EXPECT_EQ(to_pretty_json("\"a\\u001b[2J\\u202e\\u0085\\t\\u007f\""),
            "\"a\\u001b[2J\\u202e\\u0085\\t\\u007f\"\n");
  EXPECT_EQ(to_yaml("{\"v\":\"\\u001b\"}"), "v: \"\\u001b\"\n");
}

TEST(Output, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(to_valid_utf8("a\xff"
                          "b\xc3"),
            "a\uFFFDb\uFFFD");
  EXPECT_EQ(to_valid_utf8("日本"), "日本");
}

}  // namespace
}  // namespace divvy::cli
