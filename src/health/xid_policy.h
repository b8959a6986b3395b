// What an XID (the driver's number for an error of a GPU) says about the GPU itself. One table;
// docs/health.md shows it to operators. Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace divvy::health {

enum class XidVerdict : std::uint8_t {
  kApplication,  // A program did something wrong; the GPU is as good as before
  kNote,         // Worth writing down; what matters about it is seen in the samples
  kSuspect,      // The GPU may be in trouble
  kCondemned,    // The GPU needs a reset, or worse
};
[[nodiscard]] std::string_view to_string(XidVerdict verdict);

struct XidRule {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // Inclusive
  XidVerdict verdict = XidVerdict::kSuspect;
  std::string_view meaning;
};

// In ascending order, no number twice.
[[nodiscard]] std::span<const XidRule> xid_rules();

// A number that is not in the table makes a GPU suspect: it is reported as critical, and new
// drivers bring new ones.
[[nodiscard]] XidRule judge_xid(std::uint64_t number);

// "XID 79: the GPU has fallen off the bus"
[[nodiscard]] std::string describe_xid(std::uint64_t number);

}  // namespace divvy::health
