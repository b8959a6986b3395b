#include "share/messages.h"

#include <algorithm>
#include <cstring>

namespace divvy::share {
namespace {

template <typename T>
std::optional<T> copy_exactly(std::span<const std::byte> packet) {
  if (packet.size() != sizeof(T)) return std::nullopt;
  T message;
  std::memcpy(&message, packet.data(), sizeof message);
  return message;
}

std::optional<Message> parse_hello(std::span<const std::byte> packet) {
  // The fields up to the version are where they are in every version.
  constexpr std::size_t kVersionEnd = offsetof(wire::Hello, version) + sizeof(std::uint32_t);
  if (packet.size() < kVersionEnd) return std::nullopt;
  HelloMessage result;
  std::memcpy(&result.version, packet.data() + offsetof(wire::Hello, version),
              sizeof result.version);
  if (!speaks(result.version)) return result;

  if (packet.size() != wire::hello_bytes(result.version)) return std::nullopt;
  wire::Hello hello{};
  std::memcpy(&hello, packet.data(), packet.size());
  if (hello.generation != 0 && hello.slot >= wire::kMaxProcesses) return std::nullopt;
  result.pid_inside = hello.pid;
  result.slot = hello.slot;
  result.generation = hello.generation;
  result.program.assign(hello.program, strnlen(hello.program, sizeof hello.program));
  result.release.assign(hello.release, strnlen(hello.release, sizeof hello.release));
  return result;
}

wire::Welcome blank_welcome() {
  wire::Welcome message{};
  message.header = {static_cast<std::uint32_t>(wire::Kind::kWelcome), sizeof message};
  message.version = wire::kWireVersion;
  return message;
}

}  // namespace

std::optional<Message> parse_message(std::span<const std::byte> packet) {
  wire::Header header{};
  if (packet.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, packet.data(), sizeof header);
  if (header.bytes != packet.size()) return std::nullopt;
  switch (static_cast<wire::Kind>(header.kind)) {
    case wire::Kind::kHello:
      return parse_hello(packet);
    case wire::Kind::kMeasure: {
      const auto measure = copy_exactly<wire::Measure>(packet);
      if (!measure || measure->gpu >= wire::kMaxGpus) return std::nullopt;
      return MeasureMessage{measure->gpu, measure->serial};
    }
    case wire::Kind::kDoorbell:
      if (!copy_exactly<wire::Doorbell>(packet)) return std::nullopt;
      return DoorbellMessage{};
    case wire::Kind::kWelcome:
    case wire::Kind::kMeasured:
      break;  // Only we say these.
  }
  return std::nullopt;
}

wire::Welcome refusal(wire::Refusal refusal, std::string_view reason) {
  wire::Welcome message = blank_welcome();
  message.refusal = static_cast<std::uint32_t>(refusal);
  const std::size_t length = std::min(reason.size(), sizeof message.reason - 1);
  std::memcpy(message.reason, reason.data(), length);
  return message;
}

wire::Welcome welcome(std::uint32_t version, std::uint32_t slot, std::uint32_t generation) {
  wire::Welcome message = blank_welcome();
  message.version = version;
  message.slot = slot;
  message.generation = generation;
  return message;
}

}  // namespace divvy::share
