// Sizes and times as people write them: "141GiB", "512Mi", "2ms", "1.5s".
//
// The simulated driver may use no other room, so it reads its few quantities by itself. Pure;
// callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace divvy::simgpu {

// Both return nothing on a mistake and say in `error` what was wrong and what would be right.
std::optional<uint64_t> parse_size(const std::string& text, std::string* error);
std::optional<uint64_t> parse_duration_ns(const std::string& text, std::string* error);

// "141.0 GiB", "512 MiB"; "2 ms", "1.5 s".
std::string format_size(uint64_t bytes);
std::string format_duration(uint64_t ns);

}  // namespace divvy::simgpu
