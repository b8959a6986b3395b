#include "model/gpu_uuid.h"

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::model {
namespace {

constexpr std::string_view kShape = "GPU-hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";

constexpr bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

Result<GpuUuid> GpuUuid::parse(std::string_view text) {
  const auto fail = [text](std::size_t position, std::string_view reason) {
    return err(parse_error({text, position, "the UUID of a GPU", std::string(reason),
                            "write it like GPU-5c2f9d1e-0b7a-4e63-9f18-2d4c6a8b0e13"}));
  };
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    if (i == text.size()) return fail(i, "it is too short");
    if (kShape[i] == 'h') {
      if (!is_hex(text[i])) return fail(i, "a hexadecimal digit belongs there");
    } else if (text[i] != kShape[i]) {
      return fail(i, i < 4 ? "it has to begin with \"GPU-\"" : "a \"-\" belongs there");
    }
  }
  if (text.size() > kShape.size()) return fail(kShape.size(), "it is too long");
  return GpuUuid("GPU-" + to_lower(text.substr(4)));
}

}  // namespace divvy::model
