// Any stream is read, in pieces of any size, to the same events, and those are written and read as
// the same again.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "net/server_sent_events.h"

using divvy::net::EventReader;
using divvy::net::ServerSentEvent;

static std::vector<ServerSentEvent> read_all(std::string_view text, std::size_t piece) {
  EventReader reader;
  std::vector<ServerSentEvent> events;
  while (!text.empty()) {
    const auto read = reader.read(text.substr(0, piece), [&](const ServerSentEvent& event) {
      events.push_back(event);
      return true;
    });
    if (!read) break;
    text.remove_prefix(std::min(piece, text.size()));
  }
  return events;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto whole = read_all(text, text.size() + 1);
  DIVVY_CHECK(read_all(text, 1) == whole);
  std::string again;
  for (const ServerSentEvent& event : whole) again += write_event(event);
  const auto events = read_all(again, again.size() + 1);
  DIVVY_CHECK(events.size() == whole.size());
  for (std::size_t i = 0; i < events.size(); ++i) DIVVY_CHECK(events[i].data == whole[i].data);
  return 0;
}
