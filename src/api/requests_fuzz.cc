// Any body is a checked request or one sentence about what is wrong with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/requests.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (const auto request = divvy::api::parse_grant_request(body)) {
    DIVVY_CHECK(request->spec.request.share() > divvy::Share(0));
  } else {
    DIVVY_CHECK(!request.error().message.empty());
  }
  if (const auto change = divvy::api::parse_change_request(body); !change) {
    DIVVY_CHECK(!change.error().message.empty());
  }
  return 0;
}
