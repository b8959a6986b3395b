// What the sampler process does: asks the driver about every GPU, one thread each, so that one that
// is stuck does not hide the others, waits for XIDs, and sends it all to the daemon. The daemon
// never asks about health itself: a driver that does not come back blocks this process, which can
// be killed.
#pragma once

#include "nvml/library.h"

namespace divvy::health {

// The descriptor by which the daemon starts it (`divvyd --sampler 3`).
constexpr int kSamplerChannel = 3;

// Called by main of that process and by nobody else. `channel` is a socket with packets to the
// daemon; the daemon's orders (sample_message.h) come first. Returns only when there are none:
// otherwise the process ends with the channel, or with the daemon.
[[nodiscard]] int run_sampler(nvml::Library& library, int channel);

}  // namespace divvy::health
