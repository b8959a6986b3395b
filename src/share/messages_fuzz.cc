// Any packet is one checked message or nothing.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "share/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message =
      divvy::share::parse_message(std::as_bytes(std::span<const std::uint8_t>(data, size)));
  if (!message) return 0;
  if (const auto* hello = std::get_if<divvy::share::HelloMessage>(&*message)) {
    DIVVY_CHECK(hello->program.size() <= sizeof(divvy::wire::Hello::program));
    DIVVY_CHECK(hello->generation == 0 || hello->slot < divvy::wire::kMaxProcesses);
  }
  if (const auto* measure = std::get_if<divvy::share::MeasureMessage>(&*message)) {
    DIVVY_CHECK(measure->gpu < divvy::wire::kMaxGpus);
  }
  return 0;
}
