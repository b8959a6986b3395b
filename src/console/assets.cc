// The files of the console as they lie in the program: tools/build-web writes them behind each
// other into one file, which the assembler takes in, and a table of them.
#include <array>

#include "console/console.h"

// NOLINTBEGIN(hicpp-no-assembler): the alternative, an array of numbers, takes the compiler seconds
asm(R"(
  .pushsection .rodata
  .global divvy_console_pack
divvy_console_pack:
  .incbin ")" DIVVY_CONSOLE_PACK R"("
  .byte 0
  .popsection
)");
// NOLINTEND(hicpp-no-assembler)

extern "C" const char divvy_console_pack[];  // NOLINT(readability-identifier-naming)

namespace divvy::console {
namespace {

struct Packed {
  std::string_view path;
  std::string_view content_type;
  std::string_view tag;
  std::size_t offset;
  std::size_t size;
};

constexpr Packed kPacked[] = {
#include "console_assets.inc"
    {"", "", "", 0, 0},
};
constexpr std::size_t kCount = std::size(kPacked) - 1;

std::array<Asset, kCount> unpack() {
  std::array<Asset, kCount> all;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Packed& one = kPacked[i];
    all[i] = {one.path, one.content_type, one.tag, {divvy_console_pack + one.offset, one.size}};
  }
  return all;
}

}  // namespace

std::span<const Asset> assets() {
  static const std::array<Asset, kCount> all = unpack();
  return all;
}

}  // namespace divvy::console
