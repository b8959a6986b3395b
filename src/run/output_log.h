// What a member writes, on the disk: records (run/log_record.h) in files `log.1`, `log.2`, ... of a
// bounded length, of which the last few are kept. A disk that is full or broken never holds the
// member up: what cannot be written is dropped, and said as soon as that is possible.
//
// Owned by a shepherd, in its only thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "run/log_record.h"

namespace divvy::run {

class OutputLog {
 public:
  // Into the folder that `folder` is open on, which outlives this. At least one part of 4 KiB.
  OutputLog(int folder, Bytes part, std::uint32_t parts);

  // Any piece of the stream, with and without line ends.
  void write(LogStream stream, std::string_view bytes, WallTime at);
  // A sentence about the member.
  void say(std::string_view sentence, WallTime at);
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  bool append(const std::string& record);
  bool open_part();
  void tell_dropped(WallTime at);

  int folder_;
  std::uint64_t part_bytes_;
  std::uint32_t parts_;
  std::uint64_t number_ = 0;  // of the present part
  std::uint64_t size_ = 0;    // of the present part
  UniqueFd file_;
  std::uint64_t dropped_ = 0;
  std::string trouble_;
};

// "log.7": the name of a part.
[[nodiscard]] std::string log_part_name(std::uint64_t number);
// 0: it is not the name of one.
[[nodiscard]] std::uint64_t log_part_number(std::string_view name);

}  // namespace divvy::run
