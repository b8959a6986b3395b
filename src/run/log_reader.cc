#include "run/log_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/time_text.h"
#include "run/output_log.h"
#include "sys/durable_file.h"

namespace divvy::run {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;
// A line that never ends is cut here.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// The numbers of the parts that are there, in order.
std::vector<std::uint64_t> part_numbers(int folder) {
  std::vector<std::uint64_t> result;
  // A descriptor of its own, because reading a folder moves the place in it.
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return result;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd), ::closedir);
  while (entries) {
    const dirent* entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    if (const auto number = log_part_number(entry->d_name); number > 0) result.push_back(number);
  }
  std::ranges::sort(result);
  return result;
}

UniqueFd open_part(int folder, std::uint64_t number) {
  return UniqueFd(::openat(folder, log_part_name(number).c_str(),
                           O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// False at the end of what is there.
bool read_piece(int fd, std::string& buffer) {
  const std::size_t before = buffer.size();
  buffer.resize(before + kPiece);
  ssize_t got = -1;
  do {
    got = ::read(fd, buffer.data() + before, kPiece);
  } while (got < 0 && errno == EINTR);
  buffer.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return got > 0;
}

// Where the last `lines` whole lines of a part begin, and how many there were if fewer.
struct Tail {
  std::size_t offset = 0;
  std::uint64_t lines = 0;
};
Tail tail_of(std::string_view text, std::uint64_t lines) {
  std::deque<std::size_t> starts;  // of the last lines, as far as they are wanted
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    const auto record = parse_log_record(text.substr(at, end - at));
    if (record) {
      if (!inside) starts.push_back(at);
      inside = !record->whole;
      if (starts.size() > lines) starts.pop_front();
    }
    at = end + 1;
  }
  if (starts.empty()) return {text.size(), 0};
  return {starts.size() < lines ? 0 : starts.front(), starts.size()};
}

}  // namespace

LogReader::LogReader(UniqueFd folder, const LogWish& wish)
    : folder_(std::move(folder)), since_(wish.since) {
  watch_ = UniqueFd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (watch_ &&
      ::inotify_add_watch(watch_.get(), fmt::format("/proc/self/fd/{}", folder_.get()).c_str(),
                          IN_CREATE | IN_MODIFY | IN_MOVED_TO) < 0) {
    watch_.reset();
  }
  if (wish.tail) start_at_tail(*wish.tail);
}

Result<LogReader> LogReader::open(const std::filesystem::path& folder, const LogWish& wish) {
  DIVVY_TRY(fd, sys::open_folder(folder.string()));
  return LogReader(std::move(fd), wish);
}

void LogReader::start_at_tail(std::uint64_t lines) {
  auto numbers = part_numbers(folder_.get());
  while (!numbers.empty()) {
    const std::uint64_t number = numbers.back();
    numbers.pop_back();
    UniqueFd part = open_part(folder_.get(), number);
    if (!part) return;  // It was dropped meanwhile: what is left begins after it.
    std::string text;
    while (read_piece(part.get(), text)) {
    }
    const Tail tail = tail_of(text, lines);
    part_ = std::move(part);
    number_ = number;
    buffer_ = text.substr(tail.offset);
    if (tail.lines >= lines) return;
    lines -= tail.lines;
  }
}

bool LogReader::next_part() {
  for (const std::uint64_t number : part_numbers(folder_.get())) {
    if (number <= number_) continue;
    UniqueFd part = open_part(folder_.get(), number);
    if (!part) continue;
    part_ = std::move(part);
    number_ = number;
    buffer_.clear();
    return true;
  }
  return false;
}

bool LogReader::fill() {
  if (part_ && read_piece(part_.get(), buffer_)) return true;
  // What was written to this part between the last look at it and the first sight of the next.
  const auto numbers = part_numbers(folder_.get());
  const bool more = !numbers.empty() && numbers.back() > number_;
  if (!more) return false;
  if (part_ && read_piece(part_.get(), buffer_)) return true;
  return next_part();
}

void LogReader::take_record(std::string_view line, std::vector<LogLine>& lines) {
  const auto record = parse_log_record(line);
  if (!record) return;  // Damaged: the next one need not be.
  Unfinished& open = unfinished_[static_cast<std::size_t>(record->stream)];
  if (!open.any) open = {record->at, {}, true};
  open.text += record->bytes;
  if (!record->whole && open.text.size() < kLongestLine) return;
  if (!since_ || open.at >= *since_) {
    lines.push_back({open.at, record->stream, std::move(open.text), 0});
  }
  open = {};
}

std::vector<LogLine> LogReader::read(std::size_t most) {
  std::vector<LogLine> lines;
  while (lines.size() < most) {
    std::size_t at = 0;
    while (lines.size() < most) {
      const std::size_t end = buffer_.find('\n', at);
      if (end == std::string::npos) break;
      take_record(std::string_view(buffer_).substr(at, end - at), lines);
      at = end + 1;
    }
    buffer_.erase(0, at);
    if (lines.size() >= most || !fill()) break;
  }
  return lines;
}

std::vector<LogLine> LogReader::rest() {
  std::vector<LogLine> lines;
  for (std::size_t i = 0; i < unfinished_.size(); ++i) {
    Unfinished& open = unfinished_[i];
    if (open.any && (!since_ || open.at >= *since_)) {
      lines.push_back({open.at, static_cast<LogStream>(i), std::move(open.text), 0});
    }
    open = {};
  }
  std::ranges::sort(lines, {}, [](const LogLine& line) { return std::pair(line.at, line.stream); });
  return lines;
}

void LogReader::clear_watch() const {
  char events[4096];
  while (watch_ && ::read(watch_.get(), events, sizeof events) > 0) {
  }
}

void GangLog::add(std::uint32_t rank, LogReader reader) {
  readers_.push_back({rank, std::move(reader)});
}

namespace {

constexpr std::size_t kLinesAtOnce = 10'000;

template <typename Members, typename Read>
std::vector<LogLine> merge(Members& members, const Read& read) {
  std::vector<LogLine> all;
  for (auto& member : members) {
    for (LogLine& line : read(member.reader)) {
      line.rank = member.rank;
      all.push_back(std::move(line));
    }
  }
  // What one member wrote in one moment stays in its order.
  std::vector<std::pair<WallTime, std::size_t>> order;
  order.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) order.emplace_back(all[i].at, i);
  std::ranges::sort(order);
  std::vector<LogLine> sorted;
  sorted.reserve(all.size());
  for (const auto& [at, i] : order) sorted.push_back(std::move(all[i]));
  return sorted;
}

}  // namespace

std::vector<LogLine> GangLog::read() {
  return merge(readers_, [](LogReader& reader) { return reader.read(kLinesAtOnce); });
}

std::vector<LogLine> GangLog::rest() {
  return merge(readers_, [](LogReader& reader) { return reader.rest(); });
}

std::vector<int> GangLog::watch_fds() const {
  std::vector<int> result;
  for (const Member& member : readers_) {
    if (member.reader.watch_fd() >= 0) result.push_back(member.reader.watch_fd());
  }
  return result;
}

void GangLog::clear_watches() const {
  for (const Member& member : readers_) member.reader.clear_watch();
}

std::string to_text(const LogLine& line, const LogStyle& style) {
  std::string result;
  if (style.ranks) result += fmt::format("[{}] ", line.rank);
  if (style.timestamps) result += time_text(line.at) + " ";
  if (line.stream == LogStream::kDivvy) result += "divvy: ";
  return result + line.text + "\n";
}

}  // namespace divvy::run
