#include "run/output_log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "sys/durable_file.h"

namespace divvy::run {
namespace {

constexpr std::uint64_t kLeastPart = 4096;
constexpr std::string_view kPartStart = "log.";

}  // namespace

std::string log_part_name(std::uint64_t number) { return fmt::format("{}{}", kPartStart, number); }

std::uint64_t log_part_number(std::string_view name) {
  if (!name.starts_with(kPartStart)) return 0;
  std::uint64_t number = 0;
  const std::string_view digits = name.substr(kPartStart.size());
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return code == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

OutputLog::OutputLog(int folder, Bytes part, std::uint32_t parts)
    : folder_(folder),
      part_bytes_(std::max(part.count(), kLeastPart)),
      parts_(std::max(parts, 1U)) {
  (void)open_part();
}

bool OutputLog::open_part() {
  const std::string name = log_part_name(number_ + 1);
  UniqueFd file(::openat(folder_, name.c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return false;
  file_ = std::move(file);
  ++number_;
  size_ = 0;
  if (number_ > parts_) ::unlinkat(folder_, log_part_name(number_ - parts_).c_str(), 0);
  return true;
}

bool OutputLog::append(const std::string& record) {
  // A reader goes on to the next part once that exists, so nothing is added to the one before.
  if ((!file_ || (size_ > 0 && size_ + record.size() > part_bytes_)) && !open_part() && !file_) {
    trouble_ = "the file could not be made";
    return false;
  }
  if (sys::write_all(file_.get(), record)) {
    size_ += record.size();
    return true;
  }
  trouble_ = std::strerror(errno);
  // Half a record would spoil the one after it.
  (void)::ftruncate(file_.get(), static_cast<off_t>(size_));
  return false;
}

void OutputLog::tell_dropped(WallTime at) {
  const std::string sentence =
      fmt::format("{} bytes of output are missing here: {}", dropped_, trouble_);
  if (append(to_text({at, LogStream::kDivvy, true, sentence}))) dropped_ = 0;
}

void OutputLog::write(LogStream stream, std::string_view bytes, WallTime at) {
  if (dropped_ > 0) tell_dropped(at);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    // A part holds at least one record of any line.
    const std::size_t room = part_bytes_ / 2;
    const std::size_t size = std::min(whole ? end : bytes.size(), static_cast<std::size_t>(room));
    const bool complete = whole && size == end;
    if (!append(to_text({at, stream, complete, bytes.substr(0, size)}))) dropped_ += size;
    bytes.remove_prefix(size + (complete ? 1 : 0));
  }
}

void OutputLog::say(std::string_view sentence, WallTime at) {
  for (std::size_t start = 0; start <= sentence.size();) {
    const std::size_t end = std::min(sentence.find('\n', start), sentence.size());
    (void)append(to_text({at, LogStream::kDivvy, true, sentence.substr(start, end - start)}));
    start = end + 1;
  }
}

}  // namespace divvy::run
