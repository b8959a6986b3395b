// The output of a job as it comes from the daemon, each line once although the connection breaks
// off: lines carry their times, and after a break those of the last seconds come again. Pure; one
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace divvy::cli {

// "[3] 2026-11-15T18:30:00.000000001Z text" or the same without a rank, as the daemon sends it
// when asked for timestamps.
struct StampedLine {
  std::string rank;  // "[3] " or empty
  std::string time;  // Empty when there was none: then all of the line is text
  std::string text;
};
[[nodiscard]] StampedLine parse_stamped_line(std::string_view line);
// Milliseconds since 1970 of such a time.
[[nodiscard]] std::optional<std::int64_t> stamp_milliseconds(std::string_view time);

class LogFollow {
 public:
  // How much is asked for again: members of a gang are not sorted beyond what was there.
  static constexpr std::int64_t kOverlapMilliseconds = 2000;

  // Shown without its time unless `timestamps`.
  LogFollow(bool timestamps, std::function<void(std::string_view)> show)
      : timestamps_(timestamps), show_(std::move(show)) {}

  // A piece of the stream, of any size.
  void take(std::string_view piece);
  // The stream has ended: what came without a line end is shown.
  void end();
  // The connection broke off, and will be made again with since().
  void broken();
  // From where to ask again; nothing: from the beginning.
  [[nodiscard]] std::optional<std::int64_t> since() const;

 private:
  void take_line(std::string_view line);

  bool timestamps_;
  std::function<void(std::string_view)> show_;
  std::string unfinished_;
  struct Seen {
    std::string line;
    std::int64_t at;
  };
  std::deque<Seen> seen_;    // of the last seconds
  std::deque<Seen> repeat_;  // those that will come again
  std::optional<std::int64_t> newest_;
};

}  // namespace divvy::cli
