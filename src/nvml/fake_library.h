// A Library without a driver, for tests: GPUs are values that the test writes, and any query can be
// made to fail. Methods of Library may be called from any thread; the test changes GPUs only while
// nobody asks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nvml/error.h"
#include "nvml/library.h"

namespace divvy::nvml {

enum class Query {
  kHandle,
  kName,
  kUuid,
  kPci,
  kMinor,
  kCapability,
  kMig,
  kMemory,
  kUtilization,
  kTemperature,
  kSlowdown,
  kPower,
  kPowerLimit,
  kMemoryErrors,
  kRemappedRows,
  kNearCpus,
  kNearNumaNodes,
  kOwnNumaNode,
  kDistance,
  kNvlinks,
  kEvents,
  kProcesses,
  kProcessUtilization,
  kClocks,
  kMemoryTemperature,
  kEnergy,
  kClockLimits,
  kClockReasons,
  kEncoder,
  kDecoder,
  kPcieReplays,
  kPcieThroughput,
  kNvlinkBytes,
  kActivity,
  kCorrectedErrors,
};

// A healthy, idle H200 until the test says otherwise.
struct FakeGpu {
  explicit FakeGpu(std::uint32_t number);

  // From now on this query is answered with the error. Chainable.
  FakeGpu& fail(Query query, nvmlReturn_t code);
  // As fail() for every query: what a GPU that fell off the bus does.
  FakeGpu& fail_everything(nvmlReturn_t code);

  std::string name = "NVIDIA H200";
  std::string uuid;
  std::string pci;
  std::uint32_t minor = 0;
  Memory memory{Bytes(150'754'820'096), Bytes(0), Bytes(0)};
  std::vector<ProcessMemory> processes;
  std::vector<ProcessUtilization> process_utilization;
  Utilization utilization;
  std::uint32_t temperature_c = 30;
  std::uint32_t slowdown_c = 92;
  std::uint32_t power_mw = 75'000;
  std::uint32_t power_limit_mw = 700'000;
  std::uint32_t sm_clock_mhz = 345;
  std::uint32_t memory_clock_mhz = 2619;
  std::uint32_t memory_temperature_c = 36;
  std::uint64_t energy_mj = 0;
  ClockLimits clock_limits;
  std::uint64_t clock_reasons = nvmlClocksEventReasonGpuIdle;
  std::uint32_t encoder_percent = 0;
  std::uint32_t decoder_percent = 0;
  std::uint64_t pcie_replays = 0;
  Throughput pcie;
  std::uint64_t nvlink_bytes = 0;
  Activity activity;
  std::uint64_t memory_errors = 0;
  std::uint64_t corrected_errors = 0;
  RemappedRows remapped;
  model::ComputeCapability capability{9, 0};
  model::MigMode mig = model::MigMode::kDisabled;
  std::vector<std::uint32_t> cpus = {0, 1, 2, 3};
  std::vector<std::uint32_t> numa_nodes = {0};
  std::vector<NvlinkPort> nvlinks;
  std::map<Query, Error> failures;
};

class FakeLibrary : public Library {
 public:
  explicit FakeLibrary(std::uint32_t gpu_count);

  // `index` is below the number of GPUs. The reference lives as long as the library.
  FakeGpu& gpu(std::uint32_t index) { return gpus_[index]; }
  // Both directions; kSystem until set.
  void set_distance(std::uint32_t a, std::uint32_t b, Distance distance);
  // Connects every GPU with the switches over `links` links.
  void connect_through_switch(std::uint32_t links);
  // Connects two GPUs directly over `links` more links.
  void connect_directly(std::uint32_t a, std::uint32_t b, std::uint32_t links);
  // Wakes whoever waits for this GPU's errors.
  void raise_xid(std::uint32_t index, std::uint64_t number);

  // How many questions about GPUs it was asked so far.
  [[nodiscard]] std::uint64_t asked() const { return asked_; }

  bool is_simulated = false;
  Result<std::string> driver = "580.159.04";
  Result<std::uint32_t> cuda = 13000U;
  Result<std::uint32_t> count;

  bool simulated() const override { return is_simulated; }
  Result<std::string> driver_version() override { return driver; }
  Result<std::string> nvml_version() override { return "13.580.159.04"; }
  Result<std::uint32_t> cuda_version() override { return cuda; }
  Result<std::uint32_t> device_count() override { return count; }
  Result<Device> device(std::uint32_t index) override;
  Result<std::string> name(Device device) override;
  Result<std::string> uuid(Device device) override;
  Result<model::PciAddress> pci_address(Device device) override;
  Result<std::uint32_t> minor_number(Device device) override;
  Result<model::ComputeCapability> compute_capability(Device device) override;
  Result<model::MigMode> mig_mode(Device device) override;
  Result<Memory> memory(Device device) override;
  Result<std::vector<ProcessMemory>> processes(Device device) override;
  Result<std::vector<ProcessUtilization>> process_utilization(
      Device device, std::chrono::system_clock::time_point since) override;
  Result<Utilization> utilization(Device device) override;
  Result<std::uint32_t> temperature_c(Device device) override;
  Result<std::uint32_t> slowdown_temperature_c(Device device) override;
  Result<std::uint32_t> power_mw(Device device) override;
  Result<std::uint32_t> power_limit_mw(Device device) override;
  Result<std::uint32_t> clock_mhz(Device device, ClockDomain domain) override;
  Result<std::uint32_t> memory_temperature_c(Device device) override;
  Result<std::uint64_t> energy_mj(Device device) override;
  Result<ClockLimits> clock_limits(Device device) override;
  Result<std::uint64_t> clock_event_reasons(Device device) override;
  Result<std::uint32_t> encoder_percent(Device device) override;
  Result<std::uint32_t> decoder_percent(Device device) override;
  Result<std::uint64_t> pcie_replays(Device device) override;
  Result<Throughput> pcie_throughput(Device device) override;
  Result<std::uint64_t> nvlink_bytes(Device device) override;
  Result<Activity> activity(Device device) override;
  Result<std::uint64_t> corrected_memory_errors(Device device) override;
  Result<std::uint64_t> uncorrected_memory_errors(Device device) override;
  Result<RemappedRows> remapped_rows(Device device) override;
  Result<std::vector<std::uint32_t>> near_cpus(Device device) override;
  Result<std::vector<std::uint32_t>> near_numa_nodes(Device device) override;
  Result<std::uint32_t> own_numa_node(Device device) override;
  Result<Distance> distance(Device a, Device b) override;
  Result<std::vector<NvlinkPort>> active_nvlinks(Device device) override;
  Result<std::unique_ptr<XidEvents>> watch_xids(std::span<const Device> devices) override;

 private:
  class Events;
  struct RaisedXid {
    std::uint32_t gpu = 0;
    std::uint64_t number = 0;
  };

  template <typename T>
  Result<T> answer(Device device, Query query, const T& value) const;
  mutable std::atomic<std::uint64_t> asked_{0};
  std::optional<std::uint32_t> index_of(Device device) const;
  // Index pairs with the smaller first.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Distance> distances_;
  std::deque<FakeGpu> gpus_;

  std::mutex mutex_;
  std::condition_variable raised_;
  std::vector<RaisedXid> xids_;  // Every one ever raised; guarded by mutex_
};

}  // namespace divvy::nvml
