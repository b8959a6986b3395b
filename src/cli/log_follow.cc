#include "cli/log_follow.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace divvy::cli {
namespace {

constexpr std::string_view kForm = "2026-11-15T18:30:00.000000000Z";
// So that a member that writes very fast does not fill the memory.
constexpr std::size_t kMostSeen = 100'000;

bool is_stamp(std::string_view text) {
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = kForm[i] >= '0' && kForm[i] <= '9';
    if (digit ? (text[i] < '0' || text[i] > '9') : text[i] != kForm[i]) return false;
  }
  return true;
}

}  // namespace

StampedLine parse_stamped_line(std::string_view line) {
  StampedLine parsed;
  std::string_view rest = line;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find("] ");
    const std::string_view digits = rest.substr(1, end == std::string_view::npos ? 0 : end - 1);
    if (!digits.empty() && digits.size() < 10 &&
        std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
      parsed.rank = rest.substr(0, end + 2);
      rest.remove_prefix(end + 2);
    }
  }
  if (rest.size() > kForm.size() && rest[kForm.size()] == ' ' &&
      is_stamp(rest.substr(0, kForm.size()))) {
    parsed.time = rest.substr(0, kForm.size());
    parsed.text = rest.substr(kForm.size() + 1);
    return parsed;
  }
  return {.rank = {}, .time = {}, .text = std::string(line)};
}

std::optional<std::int64_t> stamp_milliseconds(std::string_view time) {
  if (!is_stamp(time)) return std::nullopt;
  const std::string copy(time);
  std::tm moment{};
  if (::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &moment) == nullptr) return std::nullopt;
  return std::int64_t{1000} * ::timegm(&moment) + std::stoi(copy.substr(20, 3));
}

void LogFollow::take(std::string_view piece) {
  unfinished_ += piece;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = unfinished_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    take_line(std::string_view(unfinished_).substr(begin, end - begin));
  }
  unfinished_.erase(0, begin);
}

void LogFollow::take_line(std::string_view line) {
  const StampedLine parsed = parse_stamped_line(line);
  if (const auto at = stamp_milliseconds(parsed.time)) {
    const auto again = std::ranges::find(repeat_, line, &Seen::line);
    const bool known = again != repeat_.end();
    if (known) repeat_.erase(again);
    newest_ = std::max(newest_.value_or(*at), *at);
    if (!known) {
      seen_.push_back({std::string(line), *at});
      while (seen_.size() > kMostSeen || seen_.front().at < *newest_ - kOverlapMilliseconds) {
        seen_.pop_front();
      }
    }
    if (known) return;
  }
  show_(timestamps_ ? std::string(line) + "\n" : parsed.rank + parsed.text + "\n");
}

void LogFollow::end() {
  if (!unfinished_.empty()) take_line(std::exchange(unfinished_, {}));
}

void LogFollow::broken() {
  // Half a line comes again as a whole one.
  unfinished_.clear();
  repeat_ = seen_;
}

std::optional<std::int64_t> LogFollow::since() const {
  if (!newest_) return std::nullopt;
  return *newest_ - kOverlapMilliseconds;
}

}  // namespace divvy::cli
