#include "health/xid_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace divvy::health {
namespace {

using enum XidVerdict;

// After NVIDIA's catalogue: "restart the application" is the application's, "reset the GPU" and
// "restart the machine" condemn, the rest depends. 109 asks for a reset there, but a program that
// never ends its kernel raises it too, and NVIDIA's own device plugin does not count it.
constexpr std::array kRules = {
    XidRule{8, 8, kApplication, "a channel did not become idle in time"},
    XidRule{11, 11, kApplication, "a command stream was invalid"},
    XidRule{13, 13, kApplication, "an exception in the graphics engine"},
    XidRule{31, 31, kApplication, "a page fault in GPU memory"},
    XidRule{32, 32, kApplication, "a command stream was invalid"},
    XidRule{39, 41, kSuspect, "an exception in a copy engine"},
    XidRule{43, 43, kApplication, "a channel was stopped"},
    XidRule{44, 44, kSuspect, "a fault while switching contexts"},
    XidRule{45, 45, kApplication, "what a program left behind was cleaned up"},
    XidRule{46, 46, kCondemned, "the GPU stopped processing"},
    XidRule{48, 48, kCondemned, "an uncorrectable memory error"},
    XidRule{61, 61, kSuspect, "a warning of the power unit"},
    XidRule{62, 62, kCondemned, "the power unit has halted"},
    XidRule{63, 63, kNote, "a memory row is going to be replaced"},
    XidRule{64, 64, kCondemned, "a memory row could not be replaced"},
    XidRule{68, 69, kApplication, "an exception in a video or graphics engine"},
    XidRule{74, 74, kCondemned, "an NVLink error"},
    XidRule{79, 79, kCondemned, "the GPU has fallen off the bus"},
    XidRule{80, 80, kSuspect, "commands arrived damaged"},
    XidRule{82, 84, kApplication, "an exception in a video engine"},
    XidRule{86, 86, kApplication, "an exception in the optical flow engine"},
    XidRule{88, 89, kApplication, "an exception in a video engine"},
    XidRule{92, 92, kSuspect, "many corrected memory errors"},
    XidRule{93, 93, kNote, "the card's own memory is worn"},
    XidRule{94, 94, kSuspect, "a memory error that hit one program"},
    XidRule{95, 95, kCondemned, "a memory error that hit several programs"},
    XidRule{96, 105, kApplication, "an exception in a video or image engine"},
    XidRule{106, 107, kNote, "a test message"},
    XidRule{109, 109, kApplication, "a program could not be interrupted in time"},
    XidRule{119, 119, kCondemned, "the GPU's own processor does not answer"},
    XidRule{120, 120, kCondemned, "the GPU's own processor has failed"},
    XidRule{121, 121, kSuspect, "an error on the link to the processor"},
    XidRule{140, 140, kCondemned, "a memory error that could not be handled"},
    XidRule{143, 143, kCondemned, "the GPU could not be initialised"},
    XidRule{154, 154, kNote, "the driver changed what it advises to do"},
    XidRule{155, 155, kCondemned, "an NVLink error"},
    XidRule{156, 156, kCondemned, "a part of the GPU was retired; it needs a reset"},
    XidRule{157, 157, kSuspect, "a part of the GPU could not be retired"},
};

}  // namespace

std::string_view to_string(XidVerdict verdict) {
  switch (verdict) {
    case kApplication:
      return "application";
    case kNote:
      return "note";
    case kSuspect:
      return "suspect";
    case kCondemned:
      return "condemned";
  }
  return "unknown";
}

std::span<const XidRule> xid_rules() { return kRules; }

XidRule judge_xid(std::uint64_t number) {
  const auto found = std::ranges::find_if(kRules, [number](const XidRule& rule) {
    return number >= rule.first && number <= rule.last;
  });
  if (found != kRules.end()) return *found;
  return {number, number, kSuspect, "not known to this version of Divvy"};
}

std::string describe_xid(std::uint64_t number) {
  return fmt::format("XID {}: {}", number, judge_xid(number).meaning);
}

}  // namespace divvy::health
