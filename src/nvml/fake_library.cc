#include "nvml/fake_library.h"

#include <fmt/format.h>

#include <algorithm>

namespace divvy::nvml {
namespace {

constexpr Query kEveryQuery[] = {
    Query::kHandle,
    Query::kName,
    Query::kUuid,
    Query::kPci,
    Query::kMinor,
    Query::kCapability,
    Query::kMig,
    Query::kMemory,
    Query::kUtilization,
    Query::kTemperature,
    Query::kSlowdown,
    Query::kPower,
    Query::kPowerLimit,
    Query::kMemoryErrors,
    Query::kRemappedRows,
    Query::kNearCpus,
    Query::kNearNumaNodes,
    Query::kOwnNumaNode,
    Query::kDistance,
    Query::kNvlinks,
    Query::kEvents,
    Query::kProcesses,
    Query::kProcessUtilization,
    Query::kClocks,
    Query::kMemoryTemperature,
    Query::kEnergy,
    Query::kClockLimits,
    Query::kClockReasons,
    Query::kEncoder,
    Query::kDecoder,
    Query::kPcieReplays,
    Query::kPcieThroughput,
    Query::kNvlinkBytes,
    Query::kActivity,
    Query::kCorrectedErrors,
};

}  // namespace

FakeGpu::FakeGpu(std::uint32_t number)
    : uuid(fmt::format("GPU-{:08x}-0000-4000-8000-0000000000{:02x}", 0x1000 + number, number)),
      pci(fmt::format("00000000:{:02X}:00.0", 0x18 + number)),
      minor(number) {
  // As on a machine whose GPUs are plain PCI Express cards.
  fail(Query::kOwnNumaNode, NVML_ERROR_NOT_SUPPORTED);
}

FakeGpu& FakeGpu::fail(Query query, nvmlReturn_t code) {
  failures.insert_or_assign(query, to_error(code));
  return *this;
}

FakeGpu& FakeGpu::fail_everything(nvmlReturn_t code) {
  for (const Query query : kEveryQuery) fail(query, code);
  return *this;
}

// Waits on the library's list of errors from where it stood when the waiting began.
class FakeLibrary::Events : public XidEvents {
 public:
  Events(FakeLibrary& library, std::vector<std::uint32_t> gpus, std::size_t seen)
      : library_(library), gpus_(std::move(gpus)), seen_(seen) {}

  Result<std::optional<Xid>> wait(std::chrono::milliseconds timeout) override {
    std::unique_lock lock(library_.mutex_);
    std::optional<Xid> found;
    library_.raised_.wait_for(lock, timeout, [this, &found] {
      while (!found && seen_ < library_.xids_.size()) {
        const RaisedXid& xid = library_.xids_[seen_++];
        if (std::ranges::find(gpus_, xid.gpu) != gpus_.end()) {
          found = Xid{Device{&library_.gpus_[xid.gpu]}, xid.number};
        }
      }
      return found.has_value();
    });
    return found;
  }

 private:
  FakeLibrary& library_;
  const std::vector<std::uint32_t> gpus_;
  std::size_t seen_;
};

FakeLibrary::FakeLibrary(std::uint32_t gpu_count) : count(gpu_count) {
  for (std::uint32_t i = 0; i < gpu_count; ++i) gpus_.emplace_back(i);
}

void FakeLibrary::set_distance(std::uint32_t a, std::uint32_t b, Distance distance) {
  distances_[std::minmax(a, b)] = distance;
}

void FakeLibrary::connect_through_switch(std::uint32_t links) {
  for (FakeGpu& gpu : gpus_) {
    gpu.nvlinks.insert(gpu.nvlinks.end(), links,
                       NvlinkPort{NvlinkPort::Remote::kSwitch, std::nullopt});
  }
}

void FakeLibrary::connect_directly(std::uint32_t a, std::uint32_t b, std::uint32_t links) {
  const auto connect = [links](FakeGpu& from, const FakeGpu& to) {
    const auto address = model::PciAddress::parse(to.pci);
    from.nvlinks.insert(from.nvlinks.end(), links,
                        NvlinkPort{NvlinkPort::Remote::kGpu, address.value()});
  };
  connect(gpus_[a], gpus_[b]);
  connect(gpus_[b], gpus_[a]);
}

void FakeLibrary::raise_xid(std::uint32_t index, std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    xids_.push_back({index, number});
  }
  raised_.notify_all();
}

std::optional<std::uint32_t> FakeLibrary::index_of(Device device) const {
  for (std::uint32_t i = 0; i < gpus_.size(); ++i) {
    if (&gpus_[i] == device.handle) return i;
  }
  return std::nullopt;
}

template <typename T>
Result<T> FakeLibrary::answer(Device device, Query query, const T& value) const {
  ++asked_;
  const auto* gpu = static_cast<const FakeGpu*>(device.handle);
  const auto failure = gpu->failures.find(query);
  if (failure != gpu->failures.end()) return err(failure->second);
  return value;
}

namespace {
const FakeGpu& of(Device device) { return *static_cast<const FakeGpu*>(device.handle); }
}  // namespace

Result<Device> FakeLibrary::device(std::uint32_t index) {
  if (index >= gpus_.size()) return err(to_error(NVML_ERROR_INVALID_ARGUMENT));
  const Device device{&gpus_[index]};
  return answer(device, Query::kHandle, device);
}

Result<std::string> FakeLibrary::name(Device device) {
  return answer(device, Query::kName, of(device).name);
}
Result<std::string> FakeLibrary::uuid(Device device) {
  return answer(device, Query::kUuid, of(device).uuid);
}
Result<model::PciAddress> FakeLibrary::pci_address(Device device) {
  DIVVY_TRY(address, model::PciAddress::parse(of(device).pci));
  return answer(device, Query::kPci, address);
}
Result<std::uint32_t> FakeLibrary::minor_number(Device device) {
  return answer(device, Query::kMinor, of(device).minor);
}
Result<model::ComputeCapability> FakeLibrary::compute_capability(Device device) {
  return answer(device, Query::kCapability, of(device).capability);
}
Result<model::MigMode> FakeLibrary::mig_mode(Device device) {
  return answer(device, Query::kMig, of(device).mig);
}
Result<Memory> FakeLibrary::memory(Device device) {
  return answer(device, Query::kMemory, of(device).memory);
}
Result<std::vector<ProcessMemory>> FakeLibrary::processes(Device device) {
  return answer(device, Query::kProcesses, of(device).processes);
}
Result<std::vector<ProcessUtilization>> FakeLibrary::process_utilization(
    Device device, std::chrono::system_clock::time_point /*since*/) {
  return answer(device, Query::kProcessUtilization, of(device).process_utilization);
}
Result<Utilization> FakeLibrary::utilization(Device device) {
  return answer(device, Query::kUtilization, of(device).utilization);
}
Result<std::uint32_t> FakeLibrary::temperature_c(Device device) {
  return answer(device, Query::kTemperature, of(device).temperature_c);
}
Result<std::uint32_t> FakeLibrary::slowdown_temperature_c(Device device) {
  return answer(device, Query::kSlowdown, of(device).slowdown_c);
}
Result<std::uint32_t> FakeLibrary::power_mw(Device device) {
  return answer(device, Query::kPower, of(device).power_mw);
}
Result<std::uint32_t> FakeLibrary::power_limit_mw(Device device) {
  return answer(device, Query::kPowerLimit, of(device).power_limit_mw);
}
Result<std::uint32_t> FakeLibrary::clock_mhz(Device device, ClockDomain domain) {
  const FakeGpu& gpu = of(device);
  return answer(device, Query::kClocks,
                domain == ClockDomain::kSm ? gpu.sm_clock_mhz : gpu.memory_clock_mhz);
}
Result<std::uint32_t> FakeLibrary::memory_temperature_c(Device device) {
  return answer(device, Query::kMemoryTemperature, of(device).memory_temperature_c);
}
Result<std::uint64_t> FakeLibrary::energy_mj(Device device) {
  return answer(device, Query::kEnergy, of(device).energy_mj);
}
Result<ClockLimits> FakeLibrary::clock_limits(Device device) {
  return answer(device, Query::kClockLimits, of(device).clock_limits);
}
Result<std::uint64_t> FakeLibrary::clock_event_reasons(Device device) {
  return answer(device, Query::kClockReasons, of(device).clock_reasons);
}
Result<std::uint32_t> FakeLibrary::encoder_percent(Device device) {
  return answer(device, Query::kEncoder, of(device).encoder_percent);
}
Result<std::uint32_t> FakeLibrary::decoder_percent(Device device) {
  return answer(device, Query::kDecoder, of(device).decoder_percent);
}
Result<std::uint64_t> FakeLibrary::pcie_replays(Device device) {
  return answer(device, Query::kPcieReplays, of(device).pcie_replays);
}
Result<Throughput> FakeLibrary::pcie_throughput(Device device) {
  return answer(device, Query::kPcieThroughput, of(device).pcie);
}
Result<std::uint64_t> FakeLibrary::nvlink_bytes(Device device) {
  return answer(device, Query::kNvlinkBytes, of(device).nvlink_bytes);
}
Result<Activity> FakeLibrary::activity(Device device) {
  return answer(device, Query::kActivity, of(device).activity);
}
Result<std::uint64_t> FakeLibrary::corrected_memory_errors(Device device) {
  return answer(device, Query::kCorrectedErrors, of(device).corrected_errors);
}
Result<std::uint64_t> FakeLibrary::uncorrected_memory_errors(Device device) {
  return answer(device, Query::kMemoryErrors, of(device).memory_errors);
}
Result<RemappedRows> FakeLibrary::remapped_rows(Device device) {
  return answer(device, Query::kRemappedRows, of(device).remapped);
}
Result<std::vector<std::uint32_t>> FakeLibrary::near_cpus(Device device) {
  return answer(device, Query::kNearCpus, of(device).cpus);
}
Result<std::vector<std::uint32_t>> FakeLibrary::near_numa_nodes(Device device) {
  return answer(device, Query::kNearNumaNodes, of(device).numa_nodes);
}
Result<std::uint32_t> FakeLibrary::own_numa_node(Device device) {
  const auto& nodes = of(device).numa_nodes;
  return answer(device, Query::kOwnNumaNode, nodes.empty() ? 0 : nodes.front());
}

Result<Distance> FakeLibrary::distance(Device a, Device b) {
  const auto first = index_of(a);
  const auto second = index_of(b);
  if (!first || !second) return err(to_error(NVML_ERROR_INVALID_ARGUMENT));
  const auto known = distances_.find(std::minmax(*first, *second));
  return answer(a, Query::kDistance, known == distances_.end() ? Distance::kSystem : known->second);
}

Result<std::vector<NvlinkPort>> FakeLibrary::active_nvlinks(Device device) {
  return answer(device, Query::kNvlinks, of(device).nvlinks);
}

Result<std::unique_ptr<XidEvents>> FakeLibrary::watch_xids(std::span<const Device> devices) {
  std::vector<std::uint32_t> watched;
  for (const Device device : devices) {
    const auto index = index_of(device);
    if (!index) return err(to_error(NVML_ERROR_INVALID_ARGUMENT));
    DIVVY_TRY(known, answer(device, Query::kEvents, *index));
    watched.push_back(known);
  }
  const std::lock_guard lock(mutex_);
  return std::make_unique<Events>(*this, std::move(watched), xids_.size());
}

}  // namespace divvy::nvml
