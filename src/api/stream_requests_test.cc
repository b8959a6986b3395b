#include "api/stream_requests.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

using Kind = agent::StreamOrder::Kind;

TEST(StreamRequests, ReadsACommandInATerminal) {
  const auto order = parse_stream_request(
      R"({"kind":"exec","rank":2,"command":["sh","-c","x"],"environment":["A=b=c"],
          "path":"/tmp","terminal":true,"rows":40,"columns":132})");
  ASSERT_TRUE(order) << order.error().message;
  agent::StreamOrder wanted;
  wanted.kind = Kind::kExec;
  wanted.command = {"sh", "-c", "x"};
  wanted.key.rank = 2;
  wanted.environment = {{"A", "b=c"}};
  wanted.path = "/tmp";
  wanted.terminal = true;
  wanted.rows = 40;
  wanted.columns = 132;
  EXPECT_EQ(*order, wanted);
}

TEST(StreamRequests, RefusesWhatCannotBeOpened) {
  for (const char* const body : {"", "[]", "{}", R"({"kind":"output"})", R"({"kind":"exec"})",
                                 R"({"kind":"exec","command":["a"],"environment":["A"]})",
                                 R"({"kind":"copy-in","path":"data"})", R"({"kind":"port"})",
                                 R"({"kind":"port","port":65536})", R"({"kind":"attach","more":1})",
                                 R"({"kind":"exec","command":["a"],"rows":0})"}) {
    EXPECT_FALSE(parse_stream_request(body)) << body;
  }
}

}  // namespace
}  // namespace divvy::api
