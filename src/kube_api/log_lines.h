// The output of the pods of a job, line by line: as Kubernetes sends it, with a time before each
// line, and as the API sends it on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace divvy::kube_api {

struct LogLine {
  std::uint32_t rank = 0;
  // By which those of one job are put in order. One without a time has that of the line before.
  WallTime at = {};
  std::string time = {};  // "2026-11-15T18:30:00.000000001Z", or in the time zone of its node
  std::string text = {};
};

struct LogStyle {
  bool timestamps = false;
  bool ranks = false;  // "[3] " before each line
};
// With its line end.
[[nodiscard]] std::string to_text(const LogLine& line, const LogStyle& style);

// Pieces of any size to lines. One thread at a time.
class LineSplitter {
 public:
  // A container that never ends a line gets one here.
  static constexpr std::size_t kLongest = 1U << 20U;

  explicit LineSplitter(std::uint32_t rank) : rank_(rank) {}
  void take(std::string_view piece, std::vector<LogLine>& lines);
  // What came without a line end.
  void finish(std::vector<LogLine>& lines);

  // The same output comes once more, from some place at or before the last line on; what came
  // already is left out. A line of which only the beginning came, comes whole.
  void again();
  // Of the last line that came.
  [[nodiscard]] std::optional<WallTime> last() const { return last_; }

 private:
  void add(std::string_view line, std::vector<LogLine>& lines);
  // Whether a line of that time came before again().
  [[nodiscard]] bool came(WallTime at);

  std::uint32_t rank_;
  std::string begun_;
  // Of what came: the last time, and how many lines have it.
  std::optional<WallTime> last_;
  std::size_t with_last_ = 0;
  // What comes again: until it is behind the last time.
  bool again_ = false;
  std::size_t again_with_last_ = 0;
  bool left_out_ = false;  // the line before
};

// Lines on their way from the threads that read them to the one that sends them, and no more of
// them than it can take. begin(), say(), take() and clear() are the latter's, add() and end() the
// others'.
class FollowedLines {
 public:
  static constexpr std::size_t kMost = 4096;

  FollowedLines();
  void begin();
  // Waits while there are too many. False: somebody said stop.
  [[nodiscard]] bool add(LineSplitter& splitter, std::string_view piece,
                         const std::stop_token& stop);
  // `whole`: nothing more comes, so that a line without an end is one.
  void end(LineSplitter& splitter, bool whole);
  // A line of ours, behind those of this container.
  void say(const LineSplitter& splitter, std::uint32_t rank, const std::string& text);

  [[nodiscard]] std::vector<LogLine> take();
  [[nodiscard]] std::size_t readers() const;
  // Readable when there may be more, or one has ended, since clear().
  [[nodiscard]] int fd() const { return bell_.get(); }
  void clear() const;

 private:
  void ring() const;

  UniqueFd bell_;
  mutable std::mutex mutex_;
  std::condition_variable_any taken_;
  std::vector<LogLine> lines_;
  std::size_t readers_ = 0;
};

}  // namespace divvy::kube_api
