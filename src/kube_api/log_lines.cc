#include "kube_api/log_lines.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kube_api/stable_order.h"

namespace divvy::kube_api {

std::string to_text(const LogLine& line, const LogStyle& style) {
  std::string text;
  if (style.ranks) text += fmt::format("[{}] ", line.rank);
  if (style.timestamps && !line.time.empty()) text += line.time + " ";
  return text + line.text + "\n";
}

void LineSplitter::add(std::string_view line, std::vector<LogLine>& lines) const {
  const std::size_t space = line.find(' ');
  const bool stamped = space != std::string_view::npos && space > 19 && line[4] == '-' &&
                       line[10] == 'T' && line[space - 1] == 'Z';
  LogLine& made = lines.emplace_back();
  made.rank = rank_;
  if (stamped) made.time = line.substr(0, space);
  made.text = stamped ? line.substr(space + 1) : line;
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

void FollowedLines::end(LineSplitter& splitter, const Status& read) {
  const std::lock_guard lock(mutex_);
  splitter.finish(lines_);
  if (!read && read.error().code != ErrorCode::kCancelled) {
    splitter.take("divvy: its output cannot be read: " + read.error().message + "\n", lines_);
  }
  --readers_;
  ring();
}

std::vector<LogLine> FollowedLines::take() {
  std::vector<LogLine> lines;
  {
    const std::lock_guard lock(mutex_);
    lines = std::exchange(lines_, {});
  }
  taken_.notify_all();
  sort_stably(lines, &LogLine::time);
  return lines;
}

std::size_t FollowedLines::readers() const {
  const std::lock_guard lock(mutex_);
  return readers_;
}

}  // namespace divvy::kube_api
