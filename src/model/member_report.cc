#include "model/member_report.h"

#include <array>

#include "base/text.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 3> kPhases = {"living", "ended", "lost"};

}  // namespace

std::string_view to_string(MemberPhase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

Result<MemberPhase> parse_member_phase(std::string_view text) {
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    if (text == kPhases[i]) return static_cast<MemberPhase>(i);
  }
  return err(ErrorCode::kInvalidArgument, "a member is never \"{}\"",
             escape_for_terminal(text.substr(0, 40)));
}

}  // namespace divvy::model
