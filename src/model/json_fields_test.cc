#include "model/json_fields.h"

#include <gtest/gtest.h>

namespace divvy::model {
namespace {

namespace json = boost::json;

Status read(std::string_view text, const JsonFields::ReadInside& read_fields,
            Unread unread = Unread::kRefused) {
  DIVVY_TRY(document, parse_json(text));
  JsonFields fields(document, unread);
  read_fields(fields);
  return fields.finish();
}

std::string refusal(std::string_view text, const JsonFields::ReadInside& read_fields) {
  const Status status = read(text, read_fields);
  return status ? "it was taken" : status.error().message;
}

TEST(JsonFields, WhatIsAbsentOrNullLeavesTheValueAsItIs) {
  std::string text = "before";
  std::optional<bool> flag = true;
  std::vector<std::string> list = {"a"};
  ASSERT_TRUE(read(R"({"text":null})", [&](JsonFields& fields) {
    fields.read("text", text);
    fields.read("flag", flag);
    fields.read("list", list);
  }));
  EXPECT_EQ(text, "before");
  EXPECT_EQ(flag, true);
  EXPECT_EQ(list, std::vector<std::string>{"a"});
}

TEST(JsonFields, TheFirstRefusalStaysAndNamesItsPlace) {
  std::vector<std::uint16_t> ports;
  std::string after = "untouched";
  EXPECT_EQ(refusal(R"({"container":{"ports":[80,70000]},"after":"x"})",
                    [&](JsonFields& fields) {
                      fields.inside("container",
                                    [&](JsonFields& inside) { inside.read("ports", ports); });
                      fields.read("after", after);
                      fields.need("other", after);
                    }),
            "container.ports[1]: this has to be a whole number from 0 to 65535");
  EXPECT_EQ(after, "untouched");
}

TEST(JsonFields, AmountsAreReadAsPeopleWriteThem) {
  for (const char* text : {R"({"memory":"1GiB","share":0.3,"time":"1h30m"})",
                           R"({"memory":1073741824,"share":"0.3","time":5400})"}) {
    Bytes memory;
    Share share(0);
    Seconds time{0};
    ASSERT_TRUE(read(text, [&](JsonFields& fields) {
      fields.read("memory", memory);
      fields.read("share", share);
      fields.read("time", time);
    }));
    EXPECT_EQ(memory, gib(1));
    EXPECT_EQ(share, Share(300));
    EXPECT_EQ(time, Seconds(5400));
  }
  Bytes memory;
  const auto read_memory = [&](JsonFields& fields) { fields.read("memory", memory); };
  EXPECT_NE(refusal(R"({"memory":10})", read_memory).find("did you mean 10GiB?"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"memory":[]})", read_memory),
            "memory: this has to be an amount of memory, like \"10GiB\"");
}

TEST(JsonFields, WhatIsNeededIsRefusedWhereItIsMissing) {
  std::string name;
  EXPECT_EQ(refusal("{}", [&](JsonFields& fields) { fields.need("name", name); }),
            "name: it is missing");
}

TEST(JsonFields, WhatNobodyReadsIsRefusedWithTheFieldThatWasMeantOrLeft) {
  std::uint32_t weight = 0;
  const auto read_weight = [&](JsonFields& fields) { fields.read("weight", weight); };
  EXPECT_EQ(refusal(R"({"wieght":1})", read_weight),
            "wieght: there is no such field; did you mean weight?");
  EXPECT_TRUE(read(R"({"wieght":1})", read_weight, Unread::kLeft));
}

TEST(JsonFields, RefusesWhatIsNoDocument) {
  const auto nothing = [](JsonFields& /*fields*/) {};
  EXPECT_TRUE(refusal("{", nothing).starts_with("this is not JSON: "));
  EXPECT_TRUE(refusal("{\"\xff\":1}", nothing).starts_with("this is not JSON: "));
  EXPECT_TRUE(refusal(std::string(100, '['), nothing).starts_with("this is not JSON: "));
  EXPECT_EQ(refusal("[]", nothing), "this has to be an object with named fields");
}

TEST(OwnJson, KeepsBytesAsTheyWereTypedAndIsDataLossWhereItIsDamaged) {
  std::string command;
  const auto read_command = [&](JsonFields& fields) { fields.need("command", command); };
  ASSERT_TRUE(read_own_json("orders", "{\"command\":\"\xff\"}", Unread::kLeft, read_command));
  EXPECT_EQ(command, "\xff");
  for (const char* text : {"", "{", "[]", "{}", R"({"command":1})"}) {
    const Status status = read_own_json("orders", text, Unread::kLeft, read_command);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, ErrorCode::kDataLoss) << text;
    EXPECT_TRUE(status.error().message.starts_with("orders: ")) << status.error().message;
  }
}

TEST(SliceObject, IsReadAsItWasWritten) {
  const GpuUuid gpu = *GpuUuid::parse("GPU-00000000-0000-0000-0000-000000000001");
  const Slice slice = *Slice::create(gpu, Bytes(1), Share(999), ShareKind::kCap);
  EXPECT_EQ(*read_slice(slice_object(slice)), slice);
  EXPECT_EQ(*read_slice(slice_object(slice, "capped"), "capped"), slice);
  EXPECT_EQ(read_slice(slice_object(slice), "capped").error().message, "capped: it is missing");
  json::object above = slice_object(slice);
  above["share"] = 1001;
  EXPECT_FALSE(read_slice(above));
  json::object more = slice_object(slice);
  more["colour"] = "red";
  EXPECT_EQ(read_slice(more).error().message, "colour: there is no such field");
}

}  // namespace
}  // namespace divvy::model
