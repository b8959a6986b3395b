#include "net/server_sent_events.h"

#include <gtest/gtest.h>

#include <vector>

namespace divvy::net {
namespace {

std::vector<ServerSentEvent> read_all(std::string_view text, std::size_t piece = 1000) {
  EventReader reader;
  std::vector<ServerSentEvent> events;
  while (!text.empty()) {
    EXPECT_TRUE(reader.read(text.substr(0, piece), [&](const ServerSentEvent& event) {
      events.push_back(event);
      return true;
    }));
    text.remove_prefix(std::min(piece, text.size()));
  }
  return events;
}

TEST(ServerSentEvents, AreReadAsTheyWereWrittenInPiecesOfAnySize) {
  const std::vector<ServerSentEvent> events{{"7", "job", "{\"state\":\"running\"}"},
                                            {"", "", "two\nlines"},
                                            {"8", "", ""},
                                            {"", "x", ": no comment"}};
  std::string text;
  for (const ServerSentEvent& event : events) {
    text += write_heartbeat();
    text += write_event(event);
  }
  for (std::size_t piece = 1; piece < 20; ++piece) EXPECT_EQ(read_all(text, piece), events);
}

TEST(ServerSentEvents, NobodySlipsALineIntoTheStream) {
  const auto events = read_all(write_event({"1\nevent: admin", "job\r\ndata: x", "a\r\nid: 9\rb"}));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0], (ServerSentEvent{"1 event: admin", "job  data: x", "a\nid: 9\nb"}));
}

TEST(ServerSentEvents, EveryKindOfLineEndIsUnderstood) {
  const std::vector<ServerSentEvent> expected{{"1", "", "a"}, {"2", "", "b"}};
  for (const char* text :
       {"id:1\ndata:a\n\nid:2\ndata:b\n\n", "id: 1\rdata: a\r\rid: 2\rdata: b\r\r",
        "id: 1\r\ndata: a\r\n\r\nid: 2\r\ndata: b\r\n\r\n"}) {
    for (std::size_t piece = 1; piece < 8; ++piece) EXPECT_EQ(read_all(text, piece), expected);
  }
}

TEST(ServerSentEvents, AnEventThatWasNotFinishedIsNone) {
  EXPECT_TRUE(read_all("id: 1\ndata: a\n").empty());
  EXPECT_TRUE(read_all("event: x\n\n").empty());
}

TEST(ServerSentEvents, RemembersWhereToGoOn) {
  EventReader reader;
  const auto take = [](const ServerSentEvent&) { return true; };
  ASSERT_TRUE(reader.read("id: 41\ndata: a\n\ndata: b\n\n", take));
  EXPECT_EQ(reader.last_id(), "41");
}

TEST(ServerSentEvents, StopsWhenItIsEnough) {
  EventReader reader;
  int taken = 0;
  ASSERT_TRUE(reader.read("data: a\n\ndata: b\n\n", [&](const ServerSentEvent&) {
    ++taken;
    return false;
  }));
  EXPECT_EQ(taken, 1);
}

TEST(ServerSentEvents, AServerThatNeverEndsAnEventIsRefused) {
  EventReader reader;
  const auto take = [](const ServerSentEvent&) { return true; };
  const std::string piece(1U << 20U, 'x');
  Status read;
  for (int i = 0; i < 5 && read; ++i) read = reader.read(piece, take);
  EXPECT_EQ(read.error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace divvy::net
