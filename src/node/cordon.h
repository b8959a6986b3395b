// An operator's word that a GPU gets no new work. Plain values.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "model/gpu_uuid.h"

namespace divvy::node {

struct Cordon {
  std::string reason;     // May be empty
  bool draining = false;  // And the present work is to end
  WallTime since;
  friend bool operator==(const Cordon&, const Cordon&) = default;
};

// Makes a cordon outlive the daemon; nothing takes it away. Called from any thread.
using KeepCordon = std::function<Status(const model::GpuUuid&, std::optional<Cordon>)>;

}  // namespace divvy::node
