// A Library whose answers come in time or not at all: questions about a GPU go through a thread of
// that GPU, and who asks waits for a moment only. A GPU that is stuck answers kTimeout, at once
// after the first time, until it comes back; the others do not notice.
//
// For the daemon and for people. Who can be killed (the sampler process) asks the driver directly.
#pragma once

#include <chrono>
#include <memory>

#include "nvml/library.h"

namespace divvy::nvml {

constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(2);

// Where the driver still holds a thread when the result goes, the library stays loaded.
[[nodiscard]] std::unique_ptr<Library> guarded(std::unique_ptr<Library> library,
                                               std::chrono::milliseconds patience = kPatience);

}  // namespace divvy::nvml
