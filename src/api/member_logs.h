// The output of the members of an attempt, put together in the order of its times from the streams
// of their agents. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "sys/frames.h"

namespace divvy::api {

struct MemberLine {
  std::uint32_t rank = 0;
  sys::LineFrame line;
};

struct LogStyle {
  bool timestamps = false;
  bool ranks = false;  // "[3] " before each line
};
// With its line end. The text is the member's, as it is: not made safe for a terminal.
[[nodiscard]] std::string to_text(const MemberLine& line, const LogStyle& style);

class MemberLogs {
 public:
  MemberLogs();

  // A stream of agent::StreamOrder::Kind::kOutput.
  void add(std::uint32_t rank, UniqueFd stream);
  // Nobody waits for more than is there: read() then goes on to the last line, also one without an
  // end.
  void finish();

  // The next lines, in order as far as they are there. None: there are no more at the moment, or
  // none at all after finish(). Waits for agents that have not told everything, not for members.
  [[nodiscard]] std::vector<MemberLine> read();
  // Readable when there may be more.
  [[nodiscard]] int fd() const { return epoll_.get(); }

 private:
  struct Member {
    std::uint32_t rank = 0;
    UniqueFd stream;
    sys::FrameReader frames;
    std::vector<sys::LineFrame> lines;  // not given yet
    std::size_t bytes = 0;              // in them
    bool unfinished = false;            // the last of them
    bool caught_up = false;
    bool ended = false;
  };
  // Whether there is something to wait for before its lines are given.
  [[nodiscard]] bool is_behind(const Member& member) const;
  void receive(Member& member) const;
  static void take(Member& member, const sys::Frame& frame);

  UniqueFd epoll_;
  std::vector<Member> members_;
  bool finishing_ = false;
};

}  // namespace divvy::api
