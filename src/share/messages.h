// What a process may say on its tenant's socket (wire/messages.h), read with suspicion: a packet of
// any bytes becomes one checked message or nothing. Pure, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "wire/messages.h"

namespace divvy::share {

struct HelloMessage {
  std::uint32_t version = 0;
  std::int32_t pid_inside = 0;  // In the process's own namespace; for people only
  std::uint32_t slot = 0;       // Only where generation is not 0: below kMaxProcesses
  std::uint32_t generation = 0;
  std::string program;  // Any bytes up to the first zero
  std::string release;  // Of the library, likewise; empty where it does not tell
};

struct MeasureMessage {
  std::uint32_t gpu = 0;  // Below kMaxGpus
  std::uint32_t serial = 0;
};

struct DoorbellMessage {};

using Message = std::variant<HelloMessage, MeasureMessage, DoorbellMessage>;

// Nothing when the packet is not exactly one message that a process may send. A Hello of a
// version that we do not speak is passed on whatever its length, so that it can be told why.
[[nodiscard]] std::optional<Message> parse_message(std::span<const std::byte> packet);

[[nodiscard]] constexpr bool speaks(std::uint32_t version) {
  return version >= wire::kOldestWireVersion && version <= wire::kWireVersion;
}

// A refusal to send; `reason` is shortened to what fits.
[[nodiscard]] wire::Welcome refusal(wire::Refusal refusal, std::string_view reason);
// `version` is that of the Hello.
[[nodiscard]] wire::Welcome welcome(std::uint32_t version, std::uint32_t slot,
                                    std::uint32_t generation);

}  // namespace divvy::share
