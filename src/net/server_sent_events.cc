#include "net/server_sent_events.h"

#include <algorithm>

namespace divvy::net {
namespace {

std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  return text;
}

}  // namespace

std::string write_event(const ServerSentEvent& event) {
  std::string text;
  if (!event.id.empty()) text += "id: " + one_line(event.id) + "\n";
  if (!event.kind.empty()) text += "event: " + one_line(event.kind) + "\n";
  std::string_view rest = event.data;
  for (;;) {
    const std::size_t end = rest.find_first_of("\r\n");
    text += "data: ";
    text += rest.substr(0, end);
    text += '\n';
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + (rest.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  return text + "\n";
}

std::string_view write_heartbeat() { return ":\n\n"; }

bool EventReader::take_line(std::string_view line) {
  if (line.empty()) {
    const bool whole = has_data_;
    has_data_ = false;
    if (!whole) event_ = {};
    return whole;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.kind = value;
  } else if (field == "id" && value.find('\0') == std::string_view::npos) {
    event_.id = value;
    last_id_ = value;
  }
  return false;
}

Status EventReader::read(std::string_view piece,
                         const std::function<bool(const ServerSentEvent&)>& take) {
  while (!piece.empty()) {
    if (skip_line_feed_) {
      skip_line_feed_ = false;
      if (piece.front() == '\n') piece.remove_prefix(1);
      continue;
    }
    const std::size_t end = piece.find_first_of("\r\n");
    line_ += piece.substr(0, end);
    if (line_.size() + event_.data.size() > kLargestEvent) {
      return err(ErrorCode::kOutOfRange, "an event in the stream is larger than {} bytes",
                 kLargestEvent);
    }
    if (end == std::string_view::npos) return {};
    skip_line_feed_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    if (take_line(std::exchange(line_, {}))) {
      const bool more = take(std::exchange(event_, {}));
      if (!more) return {};
    }
  }
  return {};
}

}  // namespace divvy::net
