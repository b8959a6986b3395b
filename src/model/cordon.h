// An operator's word about a GPU. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/gpu_uuid.h"

namespace divvy::model {

// An operator has taken a GPU out of use.
struct Cordon {
  std::string reason;
  bool draining = false;
  std::int64_t since_unix = 0;  // Seconds
  friend bool operator==(const Cordon&, const Cordon&) = default;
};

// Makes a cordon outlive the daemon; nothing takes it away. Called from any thread.
using KeepCordon = std::function<Status(const model::GpuUuid&, std::optional<Cordon>)>;

}  // namespace divvy::model
