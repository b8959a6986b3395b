// NVML, the driver's library for looking at GPUs, as Divvy uses it. One interface, two
// implementations: the one that open() loads from the driver (or from the simulated driver, which
// is a drop-in), and FakeLibrary (fake_library.h) for tests.
//
// Every method may be called from any thread, also at the same time, and may take as long as the
// driver takes: a GPU in trouble can block a call for seconds. Nothing is cached. What a GPU or a
// driver does not have is an error, never a zero.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/gpu.h"
#include "model/pci_address.h"

namespace divvy::nvml {

// A GPU as the library knows it; valid as long as the Library it came from.
struct Device {
  void* handle = nullptr;
  friend bool operator==(Device, Device) = default;
};

struct Memory {
  Bytes total;
  Bytes reserved;  // Kept by the driver, for nobody; zero when the driver counts it as used
  Bytes used;
};

struct Utilization {
  std::uint32_t gpu_percent = 0;     // Time in which any kernel ran, in the last sample period
  std::uint32_t memory_percent = 0;  // Time in which device memory was read or written
};

// A process that has a context on a GPU.
struct ProcessMemory {
  std::uint32_t pid = 0;      // As the driver's own pid namespace counts
  std::optional<Bytes> used;  // Nothing where the driver does not tell
};

// How busy a process kept a GPU.
struct ProcessUtilization {
  std::uint32_t pid = 0;  // As the driver's own pid namespace counts
  std::uint32_t sm_percent = 0;
};

enum class ClockDomain { kSm, kMemory };

// How long the clocks were held back, since the driver was loaded.
struct ClockLimits {
  std::chrono::nanoseconds by_power{0};
  std::chrono::nanoseconds by_heat{0};
};

// Bytes per second.
struct Throughput {
  std::uint64_t sent = 0;      // By the GPU
  std::uint64_t received = 0;  // By the GPU
};

// What parts of a GPU were busy, each as a part of the time since the question before. A part that
// the GPU does not measure is missing.
struct Activity {
  std::optional<double> graphics;   // Any kernel ran
  std::optional<double> sm;         // A multiprocessor had work, over all of them
  std::optional<double> occupancy;  // Warps that could have been there
  std::optional<double> tensor;
  std::optional<double> dram;
  std::optional<double> fp64;
  std::optional<double> fp32;
  std::optional<double> fp16;
  std::optional<Throughput> pcie;
  std::optional<Throughput> nvlink;
};

struct RemappedRows {
  std::uint32_t correctable = 0;
  std::uint32_t uncorrectable = 0;
  bool pending = false;  // Takes effect at the next reset
  bool failed = false;   // There was no spare row left
};

// How far two GPUs are from each other on PCI Express, from near to far.
enum class Distance { kSameBoard, kOneSwitch, kSeveralSwitches, kHostBridge, kNumaNode, kSystem };

// One active NVLink of a GPU.
struct NvlinkPort {
  enum class Remote { kGpu, kSwitch, kOther, kUnknown };
  Remote remote = Remote::kUnknown;
  std::optional<model::PciAddress> remote_pci;  // Of the GPU or switch at the other end
};

struct Xid {
  Device device;
  std::uint64_t number = 0;  // 79 is "fallen off the bus"
};

// Waits for critical errors of the GPUs that it was made for. One thread at a time.
class XidEvents {
 public:
  XidEvents() = default;
  XidEvents(const XidEvents&) = delete;
  XidEvents& operator=(const XidEvents&) = delete;
  virtual ~XidEvents() = default;

  // The next error, or nothing when none came within `timeout`.
  [[nodiscard]] virtual Result<std::optional<Xid>> wait(std::chrono::milliseconds timeout) = 0;
};

class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  // Are the GPUs made up by the simulated driver?
  [[nodiscard]] virtual bool simulated() const = 0;

  [[nodiscard]] virtual Result<std::string> driver_version() = 0;
  [[nodiscard]] virtual Result<std::string> nvml_version() = 0;
  // 13000 for CUDA 13.0.
  [[nodiscard]] virtual Result<std::uint32_t> cuda_version() = 0;

  // Counts also GPUs whose device() then fails.
  [[nodiscard]] virtual Result<std::uint32_t> device_count() = 0;
  [[nodiscard]] virtual Result<Device> device(std::uint32_t index) = 0;

  // Text is what the driver wrote: not checked, not safe for a terminal.
  [[nodiscard]] virtual Result<std::string> name(Device device) = 0;
  [[nodiscard]] virtual Result<std::string> uuid(Device device) = 0;
  [[nodiscard]] virtual Result<model::PciAddress> pci_address(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> minor_number(Device device) = 0;
  [[nodiscard]] virtual Result<model::ComputeCapability> compute_capability(Device device) = 0;
  [[nodiscard]] virtual Result<model::MigMode> mig_mode(Device device) = 0;

  [[nodiscard]] virtual Result<Memory> memory(Device device) = 0;
  // Every process with a context on the GPU, also through MPS, each once.
  [[nodiscard]] virtual Result<std::vector<ProcessMemory>> processes(Device device) = 0;
  // The latest sample of every process that was busy at all after `since`, each once.
  [[nodiscard]] virtual Result<std::vector<ProcessUtilization>> process_utilization(
      Device device, std::chrono::system_clock::time_point since) = 0;
  [[nodiscard]] virtual Result<Utilization> utilization(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> temperature_c(Device device) = 0;
  // From here on the GPU lowers its clocks to cool down.
  [[nodiscard]] virtual Result<std::uint32_t> slowdown_temperature_c(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> power_mw(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> power_limit_mw(Device device) = 0;

  [[nodiscard]] virtual Result<std::uint32_t> clock_mhz(Device device, ClockDomain domain) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> memory_temperature_c(Device device) = 0;
  // Since the driver was loaded.
  [[nodiscard]] virtual Result<std::uint64_t> energy_mj(Device device) = 0;
  [[nodiscard]] virtual Result<ClockLimits> clock_limits(Device device) = 0;
  // Why the clocks are held back now, in NVML's bits.
  [[nodiscard]] virtual Result<std::uint64_t> clock_event_reasons(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> encoder_percent(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> decoder_percent(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint64_t> pcie_replays(Device device) = 0;
  // The driver counts for 20 ms in each direction, for which this blocks.
  [[nodiscard]] virtual Result<Throughput> pcie_throughput(Device device) = 0;
  // Data sent and received over all links, since the driver was loaded.
  [[nodiscard]] virtual Result<std::uint64_t> nvlink_bytes(Device device) = 0;
  // Since the last call for this GPU; kUnavailable the first time. Hopper and later.
  [[nodiscard]] virtual Result<Activity> activity(Device device) = 0;

  // Since the driver was loaded.
  [[nodiscard]] virtual Result<std::uint64_t> corrected_memory_errors(Device device) = 0;
  [[nodiscard]] virtual Result<std::uint64_t> uncorrected_memory_errors(Device device) = 0;
  [[nodiscard]] virtual Result<RemappedRows> remapped_rows(Device device) = 0;

  // Processors and NUMA nodes of the host that are near the GPU, in ascending order.
  [[nodiscard]] virtual Result<std::vector<std::uint32_t>> near_cpus(Device device) = 0;
  [[nodiscard]] virtual Result<std::vector<std::uint32_t>> near_numa_nodes(Device device) = 0;
  // The NUMA node that the GPU itself is, on machines where its memory is one.
  [[nodiscard]] virtual Result<std::uint32_t> own_numa_node(Device device) = 0;
  [[nodiscard]] virtual Result<Distance> distance(Device a, Device b) = 0;
  // Empty when the GPU has NVLinks of which none is active; an error when it has none.
  [[nodiscard]] virtual Result<std::vector<NvlinkPort>> active_nvlinks(Device device) = 0;

  // Must not outlive the library.
  [[nodiscard]] virtual Result<std::unique_ptr<XidEvents>> watch_xids(
      std::span<const Device> devices) = 0;
};

struct OpenOptions {
  // Which file to load. The default is found by the dynamic linker, as every NVIDIA tool does it.
  std::string path = "libnvidia-ml.so.1";
  // Is that file the simulated driver?
  bool simulated = false;
};

// Loads and initialises the library. kNotFound when there is no such library or no driver behind
// it.
[[nodiscard]] Result<std::unique_ptr<Library>> open(const OpenOptions& options = {});

}  // namespace divvy::nvml
