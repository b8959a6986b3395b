#include "jobs/explain.h"

#include <fmt/format.h>

#include <array>

namespace divvy::jobs {
namespace {

constexpr std::array<std::string_view, 11> kKindNames{
    "nothing", "suspended",   "dependency", "back-off", "array", "quota",
    "room",    "reservation", "full",       "never",    "next"};

}  // namespace

std::string_view to_string(WaitKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::string about(Duration time) {
  const auto seconds = std::chrono::ceil<Seconds>(time).count();
  if (seconds <= 0) return "now";
  if (seconds < 120) return fmt::format("in {} s", seconds);
  if (seconds < 7'200) return fmt::format("in about {} min", (seconds + 30) / 60);
  if (seconds < 172'800) return fmt::format("in about {} h", (seconds + 1'800) / 3'600);
  return fmt::format("in about {} days", (seconds + 43'200) / 86'400);
}

}  // namespace divvy::jobs
