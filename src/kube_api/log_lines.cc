#include "kube_api/log_lines.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "base/stable_order.h"
#include "kube/time_stamp.h"

namespace divvy::kube_api {

std::string to_text(const LogLine& line, const LogStyle& style) {
  std::string text;
  if (style.ranks) text += fmt::format("[{}] ", line.rank);
  if (style.timestamps && !line.time.empty()) text += line.time + " ";
  return text + line.text + "\n";
}

bool LineSplitter::came(WallTime at) {
  if (!again_) return false;
  if (at < *last_) return true;
  if (at == *last_) return ++again_with_last_ <= with_last_;
  again_ = false;
  return false;
}

void LineSplitter::add(std::string_view line, std::vector<LogLine>& lines) {
  const std::size_t space = line.find(' ');
  const auto at =
      space == std::string_view::npos ? std::nullopt : kube::read_time_stamp(line.substr(0, space));
  if (at) {
    left_out_ = came(*at);
    if (!left_out_) {
      with_last_ = last_ == at ? with_last_ + 1 : 1;
      last_ = at;
      again_ = false;
    }
  }
  // The rest of a line that was too long goes where its beginning went.
  if (left_out_) return;
  LogLine& made = lines.emplace_back();
  made.rank = rank_;
  made.at = last_.value_or(WallTime());
  if (at) made.time = line.substr(0, space);
  made.text = at ? line.substr(space + 1) : line;
}

void LineSplitter::again() {
  begun_.clear();
  again_ = last_.has_value();
  again_with_last_ = 0;
  left_out_ = false;
}

void LineSplitter::take(std::string_view piece, std::vector<LogLine>& lines) {
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    if (end == std::string_view::npos) {
      begun_ += piece;
      if (begun_.size() >= kLongest) finish(lines);
      return;
    }
    begun_ += piece.substr(0, end);
    add(begun_, lines);
    begun_.clear();
    piece.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(std::vector<LogLine>& lines) {
  if (!begun_.empty()) add(begun_, lines);
  begun_.clear();
}

FollowedLines::FollowedLines() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void FollowedLines::ring() const {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void FollowedLines::clear() const {
  std::uint64_t count = 0;
  (void)!::read(bell_.get(), &count, sizeof count);
}

void FollowedLines::begin() {
  const std::lock_guard lock(mutex_);
  ++readers_;
}

bool FollowedLines::add(LineSplitter& splitter, std::string_view piece,
                        const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!taken_.wait(lock, stop, [this] { return lines_.size() < kMost; })) return false;
  splitter.take(piece, lines_);
  ring();
  return true;
}

void FollowedLines::end(LineSplitter& splitter, bool whole) {
  const std::lock_guard lock(mutex_);
  if (whole) splitter.finish(lines_);
  --readers_;
  ring();
}

void FollowedLines::say(const LineSplitter& splitter, std::uint32_t rank, const std::string& text) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(
      {.rank = rank, .at = splitter.last().value_or(WallTime()), .text = "divvy: " + text});
  ring();
}

std::vector<LogLine> FollowedLines::take() {
  std::vector<LogLine> lines;
  {
    const std::lock_guard lock(mutex_);
    lines = std::exchange(lines_, {});
  }
  taken_.notify_all();
  sort_stably(lines, &LogLine::at);
  return lines;
}

std::size_t FollowedLines::readers() const {
  const std::lock_guard lock(mutex_);
  return readers_;
}

}  // namespace divvy::kube_api
