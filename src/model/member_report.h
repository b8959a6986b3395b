// What is known of a member that was started on a machine. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job.h"
#include "model/member_key.h"

namespace divvy::model {

enum class MemberPhase {
  kLiving,  // It runs, or is about to, or is being ended: somebody looks after it.
  kEnded,   // It has ended and left word how.
  kLost,    // Its shepherd is gone without a word. What was left of it has been ended.
};
[[nodiscard]] std::string_view to_string(MemberPhase phase);
[[nodiscard]] Result<MemberPhase> parse_member_phase(std::string_view text);

struct MemberReport {
  MemberKey key;
  MemberPhase phase = MemberPhase::kLiving;
  // Of those that are not living. A lost one was ended by SIGKILL, and the reason says so.
  std::optional<MemberEnd> end = std::nullopt;
  std::int32_t pid = 0;  // of the command, once it has started
  // A shepherd took it up, so its command may have run. A lost one without has never run: whoever
  // wanted to start it was killed before there was a shepherd, and no late one can.
  bool begun = false;
  // What could not be limited as asked, and why; empty: all of it is.
  std::string without = {};
  friend bool operator==(const MemberReport&, const MemberReport&) = default;
};

}  // namespace divvy::model
