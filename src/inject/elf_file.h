// What has to be known of a shared library before it is given to a container: for which machine it
// is, and under which name programs look for it.
//
// Reads only the headers that it needs, from bytes that may be anything. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace divvy::inject {

enum class Machine { kX86_64, kI386, kAarch64, kArm, kOther };

struct SharedLibrary {
  Machine machine = Machine::kOther;
  std::string soname;  // Empty where it has none
};

// Fills `into` with what is at `offset`; false where the file is shorter.
using ReadAt = std::function<bool(std::uint64_t offset, std::span<std::byte> into)>;

// kDataLoss when it is no little-endian ELF file of a shared library, or damaged.
[[nodiscard]] Result<SharedLibrary> read_shared_library(const ReadAt& read_at);
[[nodiscard]] Result<SharedLibrary> read_shared_library(const std::filesystem::path& file);

}  // namespace divvy::inject
