#include "api/stream_requests.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

using Kind = agent::StreamOrder::Kind;

const std::string kName = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

// `fields`: what stands behind the name.
Result<agent::StreamOrder> parse(const std::string& fields) {
  return parse_channel_request(R"({"channel":")" + kName + "\"," + fields + "}");
}

TEST(StreamRequests, ReadsACommandInATerminal) {
  const auto order =
      parse(R"("kind":"exec","rank":2,"command":["sh","-c","x"],"environment":["A=b=c"],
          "path":"/tmp","terminal":true,"rows":40,"columns":132)");
  ASSERT_TRUE(order) << order.error().message;
  agent::StreamOrder wanted;
  wanted.kind = Kind::kExec;
  wanted.command = {"sh", "-c", "x"};
  wanted.key.rank = 2;
  wanted.environment = {{"A", "b=c"}};
  wanted.path = "/tmp";
  wanted.terminal = true;
  wanted.channel = kName;
  wanted.rows = 40;
  wanted.columns = 132;
  EXPECT_EQ(*order, wanted);
}

TEST(StreamRequests, RefusesWhatCannotBeOpened) {
  for (const char* const body : {"", "[]", "{}"}) {
    EXPECT_FALSE(parse_channel_request(body)) << body;
  }
  for (const char* const fields :
       {R"("more":1)", R"("kind":"output")", R"("kind":"exec")",
        R"("kind":"exec","command":["a"],"environment":["A"])", R"("kind":"copy-in","path":"data")",
        R"("kind":"port")", R"("kind":"port","port":65536)", R"("kind":"attach","more":1)",
        R"("kind":"exec","command":["a"],"rows":0)"}) {
    EXPECT_FALSE(parse(fields)) << fields;
  }
}

TEST(StreamRequests, AChannelHasANameThatNobodyGuesses) {
  const auto order =
      parse_channel_request(R"({"kind":"port","port":8888,"rank":1,"channel":")" + kName + "\"}");
  ASSERT_TRUE(order) << order.error().message;
  agent::StreamOrder wanted;
  wanted.kind = Kind::kPort;
  wanted.port = 8888;
  wanted.key.rank = 1;
  wanted.channel = kName;
  EXPECT_EQ(*order, wanted);
  for (const std::string& name : {std::string(), std::string("../../etc/passwd"), kName + "0",
                                  kName.substr(1), "A" + kName.substr(1), "/" + kName.substr(1)}) {
    EXPECT_FALSE(parse_channel_request(R"({"kind":"attach","channel":")" + name + "\"}")) << name;
  }
  EXPECT_FALSE(parse_channel_request(R"({"kind":"attach"})"));
  EXPECT_FALSE(parse_channel_request(R"({"kind":"join","channel":")" + kName + "\"}"));
}

TEST(StreamRequests, AChannelIsOneOfTheProtocolsThatABrowserOffers) {
  EXPECT_TRUE(offers_channel("divvy.channel.v1"));
  EXPECT_TRUE(offers_channel("divvy-session.00112233 ,\tdivvy.channel.v1"));
  for (const char* const protocols :
       {"", "divvy.channel.v10", "divvy-session.divvy.channel.v1", "divvy.channel.v1;x", ","}) {
    EXPECT_FALSE(offers_channel(protocols)) << protocols;
  }
}

TEST(StreamRequests, AChannelIsJoinedByItsName) {
  const auto order = parse_join_query("rank=3&channel=" + kName);
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->kind, Kind::kJoin);
  EXPECT_EQ(order->channel, kName);
  EXPECT_EQ(order->key.rank, 3U);
  EXPECT_EQ(parse_join_query("channel=" + kName)->key.rank, 0U);
  // Not the member that is left of it in 32 bits.
  EXPECT_NE(parse_join_query("rank=4294967296&channel=" + kName)->key.rank, 0U);
  for (const std::string& query :
       {std::string(), std::string("channel=x"), "channel=" + kName + "&more=1",
        "channel=" + kName + "&rank=-1", "channel=" + kName + "&channel=" + kName}) {
    EXPECT_FALSE(parse_join_query(query)) << query;
  }
}

}  // namespace
}  // namespace divvy::api
