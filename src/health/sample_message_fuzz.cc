// Any packet is one checked message or nothing, and what was read is written and read the same.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "health/sample_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy::health;
  const std::string_view packet(reinterpret_cast<const char*>(data), size);
  const auto message = read_message(packet);
  if (!message) return 0;
  // The words of a failure are escaped as they are read, so that only the others are the same.
  if (std::holds_alternative<FailedMessage>(*message)) return 0;
  const std::string text = write_message(*message);
  const auto again = read_message(text);
  DIVVY_CHECK(again.has_value());
  DIVVY_CHECK(write_message(*again) == text);
  return 0;
}
