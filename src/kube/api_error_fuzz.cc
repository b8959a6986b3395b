// Any body is an error of bounded length that can be shown on a terminal.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/api_error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const int status : {404, 409, 500}) {
    const divvy::Error error = divvy::kube::error_of_answer(status, text, "GET /api");
    DIVVY_CHECK(error.message.size() < 8000);
    for (const char c : error.message) DIVVY_CHECK(c != '\n' && c != '\x1b' && c != '\0');
  }
  return 0;
}
