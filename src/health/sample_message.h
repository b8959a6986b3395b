// What the sampler process tells the daemon, one packet each. The daemon reads them with suspicion
// although the sampler is its own child: a driver that has gone wrong writes into that process's
// memory. Pure, callable from any thread.
//
//   sample UUID INDEX WALL_NS NEXT_MS FIELD...   a dash where a field is missing
//   xid UUID NUMBER
//   failed UUID NEXT_MS KIND WORDS               KIND is lost, reset or error
//
// And what the daemon tells the sampler, once:
//
//   watch INTERVAL_MS IDLE_MS INDEX=UUID...
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "health/gpu_sample.h"
#include "model/gpu_uuid.h"

namespace divvy::health {

// No message is longer.
constexpr std::size_t kMaxSampleMessage = 4096;

struct SampleMessage {
  GpuSample sample;
  std::chrono::milliseconds next{0};  // The sampler means to speak again after so long
};

struct XidMessage {
  model::GpuUuid uuid;
  std::uint64_t number = 0;
};

struct FailedMessage {
  enum class Kind : std::uint8_t { kLost, kResetRequired, kError };
  model::GpuUuid uuid;
  std::chrono::milliseconds next{0};
  Kind kind = Kind::kError;
  std::string words;  // Safe for a terminal
};

using SamplerMessage = std::variant<SampleMessage, XidMessage, FailedMessage>;

[[nodiscard]] std::string write_message(const SamplerMessage& message);
// Nothing when the packet is not exactly one message.
[[nodiscard]] std::optional<SamplerMessage> read_message(std::string_view packet);

struct SamplerOrders {
  struct Gpu {
    model::GpuIndex index;
    model::GpuUuid uuid;
  };
  std::chrono::milliseconds interval{0};
  std::chrono::milliseconds idle_interval{0};
  std::vector<Gpu> gpus;
};

[[nodiscard]] std::string write_orders(const SamplerOrders& orders);
[[nodiscard]] std::optional<SamplerOrders> read_orders(std::string_view packet);

}  // namespace divvy::health
