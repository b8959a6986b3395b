#include "simgpu/quantity.h"

#include <stdio.h>

#include <cctype>
#include <span>

namespace divvy::simgpu {
namespace {

// 18 digits times a terabyte do not fit into 64 bits.
__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using)

struct Unit {
  const char* name;
  uint64_t factor;
};

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kKb = 1000;
constexpr Unit kSizes[] = {
    {"TiB", kKiB* kKiB* kKiB* kKiB},
    {"Ti", kKiB* kKiB* kKiB* kKiB},
    {"GiB", kKiB* kKiB* kKiB},
    {"Gi", kKiB* kKiB* kKiB},
    {"MiB", kKiB* kKiB},
    {"Mi", kKiB* kKiB},
    {"KiB", kKiB},
    {"Ki", kKiB},
    {"TB", kKb* kKb* kKb* kKb},
    {"T", kKb* kKb* kKb* kKb},
    {"GB", kKb* kKb* kKb},
    {"G", kKb* kKb* kKb},
    {"MB", kKb* kKb},
    {"M", kKb* kKb},
    {"KB", kKb},
    {"K", kKb},
    {"B", 1},
    {"", 1},
};
constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};

// The number is read in whole digits, never as a floating-point value, so that what is written is
// what is meant to the last byte.
std::optional<uint64_t> parse(const std::string& text, std::span<const Unit> units,
                              const char* what, const char* example, std::string* error) {
  const auto wrong = [&](const std::string& why) {
    *error = "'" + text + "' is no " + what + ": " + why + " (right would be " + example + ")";
    return std::nullopt;
  };
  Wide digits = 0;
  uint64_t scale = 1;
  size_t at = 0;
  size_t seen = 0;
  bool fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) break;
    if (++seen > 18) return wrong("it has more digits than are read");
    digits = digits * 10 + static_cast<unsigned>(c - '0');
    if (fraction) scale *= 10;
  }
  if (seen == 0) return wrong("it does not begin with a number");
  while (at < text.size() && text[at] == ' ') ++at;
  const std::string unit = text.substr(at);
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    const Wide value = digits * known.factor / scale;
    if (value > UINT64_MAX / 2) return wrong("it is too large");
    return static_cast<uint64_t>(value);
  }
  if (unit.empty()) return wrong("the unit is missing");
  return wrong("'" + unit + "' is no unit of it");
}

// At most one decimal, and none where it would say nothing.
std::string scaled(uint64_t value, uint64_t unit, const char* name) {
  const uint64_t tenths = static_cast<uint64_t>(static_cast<Wide>(value) * 10 / unit);
  char text[48];
  if (tenths % 10 == 0) {
    snprintf(text, sizeof(text), "%llu %s", static_cast<unsigned long long>(tenths / 10), name);
  } else {
    snprintf(text, sizeof(text), "%llu.%llu %s", static_cast<unsigned long long>(tenths / 10),
             static_cast<unsigned long long>(tenths % 10), name);
  }
  return text;
}

}  // namespace

std::optional<uint64_t> parse_size(const std::string& text, std::string* error) {
  return parse(text, kSizes, "size", "141GiB", error);
}

std::optional<uint64_t> parse_duration_ns(const std::string& text, std::string* error) {
  return parse(text, kTimes, "time", "2ms", error);
}

std::string format_size(uint64_t bytes) {
  constexpr uint64_t kMiB = kKiB * kKiB;
  if (bytes >= kMiB * kKiB) return scaled(bytes, kMiB * kKiB, "GiB");
  if (bytes >= kMiB) return scaled(bytes, kMiB, "MiB");
  if (bytes >= kKiB) return scaled(bytes, kKiB, "KiB");
  return scaled(bytes, 1, "B");
}

std::string format_duration(uint64_t ns) {
  if (ns >= 1'000'000'000) return scaled(ns, 1'000'000'000, "s");
  if (ns >= 1'000'000) return scaled(ns, 1'000'000, "ms");
  if (ns >= 1'000) return scaled(ns, 1'000, "us");
  return scaled(ns, 1, "ns");
}

}  // namespace divvy::simgpu
