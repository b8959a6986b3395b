// Any bytes are a library or a refusal, and nothing beyond their end is read.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "inject/elf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto library = divvy::inject::read_shared_library(
      [data, size](std::uint64_t offset, std::span<std::byte> into) {
        if (offset > size || size - offset < into.size()) return false;
        if (!into.empty()) std::memcpy(into.data(), data + offset, into.size());
        return true;
      });
  if (library) DIVVY_CHECK(library->soname.size() < size);
  return 0;
}
