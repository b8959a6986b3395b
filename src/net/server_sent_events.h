// Events as a stream of text (server-sent events, as browsers read them): how they are written and
// read. Values; any bytes are safe to pass.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::net {

constexpr std::string_view kEventStream = "text/event-stream";

struct ServerSentEvent {
  std::string id;    // What a client sends as Last-Event-ID when it comes back; empty: none
  std::string kind;  // Empty: "message"
  std::string data;  // May have several lines
  friend bool operator==(const ServerSentEvent&, const ServerSentEvent&) = default;
};

// Line ends in id and kind become spaces: nobody slips a line into the stream. Line ends in the
// data arrive as "\n".
[[nodiscard]] std::string write_event(const ServerSentEvent& event);
// A sign of life that is no event.
[[nodiscard]] std::string_view write_heartbeat();

// Takes the stream in pieces of any size. One thread.
class EventReader {
 public:
  // A server that never ends a line, or an event, is refused.
  static constexpr std::size_t kLargestEvent = 4U << 20U;

  // Calls `take` for every event that is whole; false from it: that is enough, and no more is
  // taken. kOutOfRange when an event is too large.
  [[nodiscard]] Status read(std::string_view piece,
                            const std::function<bool(const ServerSentEvent&)>& take);
  // Of the last event that had one.
  [[nodiscard]] const std::string& last_id() const { return last_id_; }

 private:
  // Whether an event is whole with this line.
  bool take_line(std::string_view line);

  std::string line_;
  bool skip_line_feed_ = false;  // The piece before ended with a carriage return
  bool has_data_ = false;
  ServerSentEvent event_;
  std::string last_id_;
};

}  // namespace divvy::net
