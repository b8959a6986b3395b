#include "run/shepherd_messages.h"

#include <gtest/gtest.h>

namespace divvy::run {
namespace {

TEST(ShepherdMessages, AreReadAsTheyWereWritten) {
  const std::vector<ShepherdRequest> requests = {
      StopRequest{std::chrono::seconds(30)},
      ExecRequest{{"sh", "-c", "\"\\\xff"}, {{"A", "b"}}, "/w", TerminalSize{33, 111}},
      ExecRequest{{"true"}, {}, "", {}},
      CopyRequest{"/a b", false},
      AttachRequest{},
      CloseInputRequest{},
      SignalRequest{15}};
  for (const ShepherdRequest& request : requests) {
    const auto read = parse_shepherd_request(to_message(request));
    ASSERT_TRUE(read) << to_message(request) << ": " << read.error().message;
    EXPECT_TRUE(*read == request) << to_message(request);
  }
  for (const auto kind : {ShepherdAnswer::Kind::kDone, ShepherdAnswer::Kind::kStarted,
                          ShepherdAnswer::Kind::kEnded, ShepherdAnswer::Kind::kRefused}) {
    const ShepherdAnswer answer{kind, 12, 3, 9, "why\n"};
    EXPECT_EQ(*parse_shepherd_answer(to_message(answer)), answer);
  }
}

TEST(ShepherdMessages, ThatMakeNoSenseAreRefused) {
  for (const char* text :
       {"", "{}", "[]", "3", "{\"stop\":3}", "{\"stop\":{},\"attach\":{}}", "{\"open\":{}}",
        "{\"stop\":{\"graceSeconds\":-1}}", "{\"stop\":{\"graceSeconds\":99999999}}",
        "{\"exec\":{\"command\":[]}}", "{\"exec\":{\"command\":[1]}}",
        "{\"exec\":{\"command\":[\"a\\u0000b\"]}}",
        "{\"exec\":{\"command\":[\"a\"],\"terminal\":1}}",
        "{\"exec\":{\"command\":[\"a\"],\"terminal\":{\"rows\":70000}}}",
        "{\"copy\":{\"path\":\"relative\"}}", "{\"signal\":{\"number\":0}}",
        "{\"signal\":{\"number\":-9}}", "{\"signal\":{\"number\":65}}"}) {
    EXPECT_FALSE(parse_shepherd_request(text)) << text;
  }
  EXPECT_FALSE(parse_shepherd_request(std::string(kMaxShepherdMessage + 1, ' ')));
  EXPECT_FALSE(parse_shepherd_answer("{\"answer\":\"perhaps\"}"));
}

}  // namespace
}  // namespace divvy::run
