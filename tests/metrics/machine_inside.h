// A daemon's inside without a driver, for tests and benchmarks of the metrics: GPUs of
// nvml::FakeLibrary, real tenants and a clock that stands still. Tenants have no processes unless
// the test makes some.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "agent/tenants.h"
#include "api/metrics.h"
#include "base/check.h"
#include "base/log.h"
#include "base/temporary_folder.h"
#include "ledger/ledger.h"
#include "nvml/fake_library.h"
#include "nvml/inventory.h"
#include "share/keeper.h"

namespace divvy::testing {

class MachineInside {
 public:
  // `prepare` changes the GPUs before anybody looks at them.
  explicit MachineInside(std::uint32_t gpus,
                         const std::function<void(nvml::FakeLibrary&)>& prepare = {})
      : library(gpus) {
    if (prepare) prepare(library);
    configure_log(LogLevel::kError, LogFormat::kText);
    disk_ = sys::open_disk(folder_);
    auto ledger = ledger::Ledger::open(*disk_, "boot");
    DIVVY_CHECK(ledger.has_value(), "{}", ledger.error().message);
    ledger_ = *std::move(ledger);
    auto made = agent::Tenants::create(
        {.library = library,
         .node =
             nvml::take_inventory(library, {.pci_devices = "/nonexistent", .hostname = "node-a"})
                 .value(),
         .arbiter = arbiter,
         .keeper = keeper_,
         .clock = clock,
         .run_folder = folder_,
         .ledger = *ledger_,
         .mps = nullptr,
         .containers = nullptr});
    DIVVY_CHECK(made.has_value(), "{}", made.error().message);
    tenants = *std::move(made);
  }
  ~MachineInside() {
    tenants.reset();
    ledger_.reset();
  }
  MachineInside(const MachineInside&) = delete;
  MachineInside& operator=(const MachineInside&) = delete;

  // A slice for this process.
  void grant(const std::string& name, std::string_view share, const std::string& device = {}) {
    const agent::Ask ask{.slices = {slice(parse_share(share).value(), device)},
                         .mode = model::GpuMode::kTimeslice,
                         .tenant_class = model::JobClass::kBatch,
                         .name = name,
                         .command = "train --password hunter2",
                         .holder = model::Holder::kProcess,
                         .member = {model::JobId(++jobs_), 1, 0},
                         .peer = {::getpid(), ::getuid(), ::getgid()}};
    const auto answer = tenants->grant(ask);
    DIVVY_CHECK(answer.has_value(), "{} was not granted: {}", name, answer.error().message);
  }

  // Asks every GPU once.
  void sample() {
    for (const model::Gpu& gpu : tenants->node().gpus()) {
      samples.put(health::take_sample(library, nvml::Device{&library.gpu(gpu.index.value())},
                                      gpu.index, *gpu.uuid, clock.wall_now()));
    }
  }

  [[nodiscard]] api::MetricsSources sources() {
    return {.tenants = *tenants,
            .arbiter = arbiter,
            .samples = samples,
            .clock = clock,
            .version = "1.2.3",
            .health = {},
            .ledger_writes = [this] { return ledger_writes.counts(); },
            .ledger_writable = {},
            .queue = {},
            .passes = {}};
  }

  nvml::FakeLibrary library;
  ManualClock clock;
  health::SampleBoard samples;
  Timings ledger_writes;

 private:
  // On the GPU that is named, or the first that has it.
  [[nodiscard]] model::Slice slice(Share share, const std::string& device) const {
    const ledger::Slices slices = tenants->slices();
    for (const ledger::SharedGpu& gpu : slices.gpus()) {
      const bool named = device.empty() || slices.find_by_text(device).value() == gpu.uuid;
      if (!named || slices.free_share(gpu.uuid) < share) continue;
      return model::Slice::create(gpu.uuid, portion(gpu.memory, share), share,
                                  model::ShareKind::kGuarantee)
          .value();
    }
    DIVVY_CHECK(false, "no GPU has room");
    std::abort();
  }

  std::uint64_t jobs_ = 0;
  share::Keeper keeper_ = share::Keeper::create().value();
  TemporaryFolder folder_;
  std::unique_ptr<sys::Disk> disk_;
  std::unique_ptr<ledger::Ledger> ledger_;

 public:
  share::Arbiter arbiter{clock, share::Arbiter::Drive::kCaller};
  std::unique_ptr<agent::Tenants> tenants;  // Last: uses all of the above
};

}  // namespace divvy::testing
