#include "child_modes.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "agent/relay.h"
#include "base/log.h"
#include "driver.h"
#include "health/probe.h"
#include "health/sampler.h"
#include "run/shepherd.h"
#include "sys/privileges.h"

namespace divvy {
namespace {

int sample() {
  auto library = open_driver_directly();
  if (!library) {
    log_error("the sampler cannot ask the driver", {{"reason", library.error().message}});
    return 1;
  }
  return health::run_sampler(**library, health::kSamplerChannel);
}

int probe(std::string_view text) {
  const auto gpu = model::GpuUuid::parse(text);
  const Status passed =
      gpu ? health::run_probe({.gpu = *gpu, .library = cuda_library()}) : Status(err(gpu.error()));
  if (!passed) std::puts(passed.error().message.c_str());
  std::fflush(stdout);
  // Not through the driver's own clean-up, which may be what is stuck.
  ::_exit(passed ? 0 : 1);
}

}  // namespace

std::optional<int> run_as_child(int argc, char** argv) {
  if (argc != 3) return std::nullopt;
  const std::string_view mode = argv[1];
  if (mode == "--sampler" || mode == "--probe") sys::drop_own_privileges();
  if (mode == "--sampler") return sample();
  if (mode == "--probe") return probe(argv[2]);
  if (mode == "--shepherd") return run::run_shepherd(argv[2]);
  if (mode == "--relay") return agent::run_relay(argv[2]);
  if (mode == "--remove-container") return run::run_removal(argv[2]);
  return std::nullopt;
}

}  // namespace divvy
