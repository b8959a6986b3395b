#include "model/member_key.h"

#include <charconv>

#include "base/text.h"

namespace divvy::model {
namespace {

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_string(const MemberKey& key) {
  return fmt::format("job-{}.{}.{}", key.job, key.attempt, key.rank);
}

Result<MemberKey> parse_member_key(std::string_view text) {
  constexpr std::string_view kStart = "job-";
  MemberKey key;
  if (text.starts_with(kStart)) {
    const auto parts = split(text.substr(kStart.size()), '.');
    JobId::rep job = 0;
    if (parts.size() == 3 && read_number(parts[0], job) && read_number(parts[1], key.attempt) &&
        read_number(parts[2], key.rank)) {
      key.job = JobId(job);
      if (to_string(key) == text) return key;
    }
  }
  return err(ErrorCode::kInvalidArgument, "\"{}\" is not the name of a member; one is job-7.1.0",
             escape_for_terminal(text.substr(0, 80)));
}

}  // namespace divvy::model
