// Reads what members have written: the last lines, those since a moment, and on and on while it
// grows, also over the change from one file to the next. Only the folder is needed, so it works for
// members that ended long ago and while no daemon runs.
//
// One thread at a time for each reader. Nothing blocks: whoever follows waits on watch_fd().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "run/log_record.h"

namespace divvy::run {

struct LogLine {
  WallTime at;  // of its beginning
  LogStream stream = LogStream::kStdout;
  std::string text;  // as the member wrote it, without the line end
  std::uint32_t rank = 0;
  friend bool operator==(const LogLine&, const LogLine&) = default;
};

struct LogWish {
  std::optional<std::uint64_t> tail;  // only the last so many lines of what is there
  std::optional<WallTime> since;
};

class LogReader {
 public:
  // The folder of a member (run/member_folder.h). kNotFound: there is none. A member that has
  // written nothing is one with no lines.
  [[nodiscard]] static Result<LogReader> open(const std::filesystem::path& folder,
                                              const LogWish& wish);

  // The next lines, up to `most`; none when there are no more at the moment.
  [[nodiscard]] std::vector<LogLine> read(std::size_t most);
  // What came without a line end. For the end of a member, when read() has no more.
  [[nodiscard]] std::vector<LogLine> rest();

  // Readable when there may be more; call clear_watch() before reading on. -1 where the kernel has
  // no more watches to give: look again after a while then.
  [[nodiscard]] int watch_fd() const { return watch_.get(); }
  void clear_watch() const;

 private:
  struct Unfinished {
    WallTime at;
    std::string text;
    bool any = false;
  };

  LogReader(UniqueFd folder, const LogWish& wish);
  void start_at_tail(std::uint64_t lines);
  // Opens the first part after the present one; false when there is none.
  bool next_part();
  // False when nothing was added to what is buffered.
  bool fill();
  void take_record(std::string_view line, std::vector<LogLine>& lines);

  UniqueFd folder_;
  UniqueFd watch_;
  std::optional<WallTime> since_;
  UniqueFd part_;
  std::uint64_t number_ = 0;
  std::string buffer_;  // of the present part, from the first record that was not taken
  std::array<Unfinished, 3> unfinished_;
};

// The lines of all members of a gang in one stream, in the order of their times as far as they are
// there when it is read.
class GangLog {
 public:
  void add(std::uint32_t rank, LogReader reader);
  [[nodiscard]] std::vector<LogLine> read();
  [[nodiscard]] std::vector<LogLine> rest();
  [[nodiscard]] std::vector<int> watch_fds() const;
  void clear_watches() const;
  [[nodiscard]] std::size_t members() const { return readers_.size(); }

 private:
  struct Member {
    std::uint32_t rank;
    LogReader reader;
  };
  std::vector<Member> readers_;
};

struct LogStyle {
  bool timestamps = false;
  bool ranks = false;  // "[3] " before each line
};
// With its line end. The text is the member's, as it is: not made safe for a terminal.
[[nodiscard]] std::string to_text(const LogLine& line, const LogStyle& style);

}  // namespace divvy::run
