// The Library that asks a loaded NVML. Every query is one call with its arguments and answer
// translated; what the library does not have is answered with kUnsupported.
#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <limits>
#include <utility>

#include "nvml/error.h"
#include "nvml/functions.h"
#include "nvml/gpm.h"
#include "nvml/library.h"

namespace divvy::nvml {
namespace {

// Links of the largest GPU there is, and then some: the library refuses numbers beyond its own.
constexpr unsigned int kMostNvlinks = 64;
constexpr unsigned int kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;
// What NVML writes for the memory of a process when it does not know.
constexpr unsigned long long kNotAvailable = ~0ULL;
// Room for 8192 processors or NUMA nodes.
using BitSet = std::array<unsigned long, 8192 / kBitsPerWord>;

nvmlDevice_t handle(Device device) { return static_cast<nvmlDevice_t>(device.handle); }

std::vector<std::uint32_t> members(const BitSet& set) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t word = 0; word < set.size(); ++word) {
    for (unsigned long rest = set[word]; rest != 0; rest &= rest - 1) {
      result.push_back(word * kBitsPerWord + static_cast<std::uint32_t>(std::countr_zero(rest)));
    }
  }
  return result;
}

// A buffer that the library filled with a C string; safe also where the zero is missing.
template <std::size_t Size>
std::string text_of(const std::array<char, Size>& buffer) {
  return {buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0')};
}

Result<model::PciAddress> to_pci_address(const nvmlPciInfo_t& info) {
  // NVML leaves the function number out of its fields: a GPU is always function 0.
  return model::PciAddress::create(info.domain, info.bus, info.device, 0);
}

class RealXidEvents : public XidEvents {
 public:
  RealXidEvents(const Functions& functions, nvmlEventSet_t set) : nvml_(functions), set_(set) {}
  ~RealXidEvents() override {
    if (nvml_.nvmlEventSetFree != nullptr) nvml_.nvmlEventSetFree(set_);
  }

  Result<std::optional<Xid>> wait(std::chrono::milliseconds timeout) override {
    nvmlEventData_t event{};
    const auto limit = std::clamp<std::chrono::milliseconds::rep>(timeout.count(), 0, INT_MAX);
    const nvmlReturn_t code =
        nvml_.nvmlEventSetWait_v2(set_, &event, static_cast<unsigned int>(limit));
    if (code == NVML_ERROR_TIMEOUT) return std::nullopt;
    if (code != NVML_SUCCESS) return err(to_error(code));
    return Xid{Device{event.device}, event.eventData};
  }

 private:
  const Functions& nvml_;
  nvmlEventSet_t set_;
};

class RealLibrary : public Library {
 public:
  RealLibrary(const Functions& functions, bool simulated)
      : nvml_(functions), gpm_(nvml_), simulated_(simulated) {}
  ~RealLibrary() override {
    gpm_.forget_all();
    nvml_.nvmlShutdown();
  }

  bool simulated() const override { return simulated_; }

  Result<std::string> driver_version() override {
    std::array<char, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE> text{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlSystemGetDriverVersion, text.data(), size_of(text)));
    return text_of(text);
  }

  Result<std::string> nvml_version() override {
    std::array<char, NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE> text{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlSystemGetNVMLVersion, text.data(), size_of(text)));
    return text_of(text);
  }

  Result<std::uint32_t> cuda_version() override {
    int version = 0;
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlSystemGetCudaDriverVersion_v2, &version));
    if (version < 0) return err(to_error(NVML_ERROR_UNKNOWN));
    return static_cast<std::uint32_t>(version);
  }

  Result<std::uint32_t> device_count() override { return ask_number(nvml_.nvmlDeviceGetCount_v2); }

  Result<Device> device(std::uint32_t index) override {
    nvmlDevice_t device = nullptr;
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetHandleByIndex_v2, index, &device));
    return Device{device};
  }

  Result<std::string> name(Device device) override {
    std::array<char, NVML_DEVICE_NAME_V2_BUFFER_SIZE> text{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetName, handle(device), text.data(), size_of(text)));
    return text_of(text);
  }

  Result<std::string> uuid(Device device) override {
    std::array<char, NVML_DEVICE_UUID_V2_BUFFER_SIZE> text{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetUUID, handle(device), text.data(), size_of(text)));
    return text_of(text);
  }

  Result<model::PciAddress> pci_address(Device device) override {
    nvmlPciInfo_t info{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetPciInfo_v3, handle(device), &info));
    return to_pci_address(info);
  }

  Result<std::uint32_t> minor_number(Device device) override {
    return ask_number(nvml_.nvmlDeviceGetMinorNumber, handle(device));
  }

  Result<model::ComputeCapability> compute_capability(Device device) override {
    int major = 0;
    int minor = 0;
    DIVVY_RETURN_IF_ERROR(
        ask(nvml_.nvmlDeviceGetCudaComputeCapability, handle(device), &major, &minor));
    if (major < 0 || minor < 0) return err(to_error(NVML_ERROR_UNKNOWN));
    return model::ComputeCapability{static_cast<std::uint32_t>(major),
                                    static_cast<std::uint32_t>(minor)};
  }

  Result<model::MigMode> mig_mode(Device device) override {
    unsigned int current = 0;
    unsigned int pending = 0;
    const Status answer = ask(nvml_.nvmlDeviceGetMigMode, handle(device), &current, &pending);
    if (!answer && answer.error().code == ErrorCode::kUnsupported) {
      return model::MigMode::kUnsupported;
    }
    if (!answer) return err(answer.error());
    return current != 0 ? model::MigMode::kEnabled : model::MigMode::kDisabled;
  }

  Result<Memory> memory(Device device) override {
    nvmlMemory_v2_t now{};
    now.version = nvmlMemory_v2;
    const Status answer = ask(nvml_.nvmlDeviceGetMemoryInfo_v2, handle(device), &now);
    if (answer) return Memory{Bytes(now.total), Bytes(now.reserved), Bytes(now.used)};
    if (answer.error().code != ErrorCode::kUnsupported) return err(answer.error());
    nvmlMemory_t before{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetMemoryInfo, handle(device), &before));
    return Memory{Bytes(before.total), Bytes(0), Bytes(before.used)};
  }

  Result<std::vector<ProcessMemory>> processes(Device device) override {
    std::vector<nvmlProcessInfo_t> found;
    // The second version has the layout of the third.
    const Status listed = list_processes(nvml_.nvmlDeviceGetComputeRunningProcesses_v3 != nullptr
                                             ? nvml_.nvmlDeviceGetComputeRunningProcesses_v3
                                             : nvml_.nvmlDeviceGetComputeRunningProcesses_v2,
                                         device, found);
    if (!listed) return err(listed.error());
    // Clients of MPS may be listed only here. A driver without MPS has no such list.
    (void)list_processes(nvml_.nvmlDeviceGetMPSComputeRunningProcesses_v3, device, found);
    std::vector<ProcessMemory> result;
    for (const nvmlProcessInfo_t& info : found) {
      const bool told = info.usedGpuMemory != kNotAvailable;
      auto same = std::ranges::find(result, info.pid, &ProcessMemory::pid);
      if (same == result.end()) same = result.insert(result.end(), {info.pid, std::nullopt});
      if (told) same->used = std::max(same->used.value_or(Bytes(0)), Bytes(info.usedGpuMemory));
    }
    return result;
  }

  Result<std::vector<ProcessUtilization>> process_utilization(
      Device device, std::chrono::system_clock::time_point since) override {
    if (nvml_.nvmlDeviceGetProcessUtilization == nullptr) return err(missing());
    const auto since_us =
        std::chrono::duration_cast<std::chrono::microseconds>(since.time_since_epoch()).count();
    std::vector<nvmlProcessUtilizationSample_t> samples(32);
    nvmlReturn_t code = NVML_ERROR_INSUFFICIENT_SIZE;
    for (int attempt = 0; attempt < 8 && code == NVML_ERROR_INSUFFICIENT_SIZE; ++attempt) {
      if (attempt > 0) samples.resize(samples.size() * 2);
      auto count = static_cast<unsigned int>(samples.size());
      code = nvml_.nvmlDeviceGetProcessUtilization(handle(device), samples.data(), &count,
                                                   static_cast<unsigned long long>(since_us));
      if (code == NVML_SUCCESS) samples.resize(std::min<std::size_t>(count, samples.size()));
    }
    // Nobody was busy.
    if (code == NVML_ERROR_NOT_FOUND) return std::vector<ProcessUtilization>();
    if (code != NVML_SUCCESS) return err(to_error(code));
    std::ranges::sort(samples, {}, &nvmlProcessUtilizationSample_t::timeStamp);
    std::vector<ProcessUtilization> result;
    for (const nvmlProcessUtilizationSample_t& sample : samples) {
      // Drivers leave places of the list empty, and have been seen to write nonsense there.
      if (sample.pid == 0 || sample.smUtil > 100) continue;
      auto same = std::ranges::find(result, sample.pid, &ProcessUtilization::pid);
      if (same == result.end()) same = result.insert(result.end(), {sample.pid, 0});
      same->sm_percent = sample.smUtil;
    }
    return result;
  }

  Result<Utilization> utilization(Device device) override {
    nvmlUtilization_t rates{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetUtilizationRates, handle(device), &rates));
    return Utilization{rates.gpu, rates.memory};
  }

  Result<std::uint32_t> temperature_c(Device device) override {
    nvmlTemperature_t reading{};
    reading.version = nvmlTemperature_v1;
    reading.sensorType = NVML_TEMPERATURE_GPU;
    const Status answer = ask(nvml_.nvmlDeviceGetTemperatureV, handle(device), &reading);
    if (answer) return static_cast<std::uint32_t>(std::max(reading.temperature, 0));
    if (answer.error().code != ErrorCode::kUnsupported) return err(answer.error());
    return ask_number(nvml_.nvmlDeviceGetTemperature, handle(device), NVML_TEMPERATURE_GPU);
  }

  Result<std::uint32_t> slowdown_temperature_c(Device device) override {
    return ask_number(nvml_.nvmlDeviceGetTemperatureThreshold, handle(device),
                      NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
  }

  Result<std::uint32_t> power_mw(Device device) override {
    return ask_number(nvml_.nvmlDeviceGetPowerUsage, handle(device));
  }

  Result<std::uint32_t> power_limit_mw(Device device) override {
    return ask_number(nvml_.nvmlDeviceGetEnforcedPowerLimit, handle(device));
  }

  Result<std::uint32_t> clock_mhz(Device device, ClockDomain domain) override {
    return ask_number(nvml_.nvmlDeviceGetClockInfo, handle(device),
                      domain == ClockDomain::kSm ? NVML_CLOCK_SM : NVML_CLOCK_MEM);
  }

  Result<std::uint32_t> memory_temperature_c(Device device) override {
    DIVVY_TRY(reading, field(device, NVML_FI_DEV_MEMORY_TEMP));
    // GPUs without the sensor have been seen to answer with zero instead of an error.
    if (reading == 0) return err(to_error(NVML_ERROR_NOT_SUPPORTED));
    return static_cast<std::uint32_t>(reading);
  }

  Result<std::uint64_t> energy_mj(Device device) override {
    return ask_wide(nvml_.nvmlDeviceGetTotalEnergyConsumption, handle(device));
  }

  Result<ClockLimits> clock_limits(Device device) override {
    DIVVY_TRY(by_power, field(device, NVML_FI_DEV_PERF_POLICY_POWER));
    DIVVY_TRY(by_heat, field(device, NVML_FI_DEV_PERF_POLICY_THERMAL));
    return ClockLimits{std::chrono::nanoseconds(by_power), std::chrono::nanoseconds(by_heat)};
  }

  Result<std::uint64_t> clock_event_reasons(Device device) override {
    // The same question under its name of before driver 535.
    return ask_wide(nvml_.nvmlDeviceGetCurrentClocksEventReasons != nullptr
                        ? nvml_.nvmlDeviceGetCurrentClocksEventReasons
                        : nvml_.nvmlDeviceGetCurrentClocksThrottleReasons,
                    handle(device));
  }

  Result<std::uint32_t> encoder_percent(Device device) override {
    unsigned int period_us = 0;
    unsigned int percent = 0;
    DIVVY_RETURN_IF_ERROR(
        ask(nvml_.nvmlDeviceGetEncoderUtilization, handle(device), &percent, &period_us));
    return percent;
  }

  Result<std::uint32_t> decoder_percent(Device device) override {
    unsigned int period_us = 0;
    unsigned int percent = 0;
    DIVVY_RETURN_IF_ERROR(
        ask(nvml_.nvmlDeviceGetDecoderUtilization, handle(device), &percent, &period_us));
    return percent;
  }

  Result<std::uint64_t> pcie_replays(Device device) override {
    return ask_number(nvml_.nvmlDeviceGetPcieReplayCounter, handle(device));
  }

  Result<Throughput> pcie_throughput(Device device) override {
    constexpr std::uint64_t kUnit = 1000;  // Documented as KB/s
    DIVVY_TRY(sent, ask_number(nvml_.nvmlDeviceGetPcieThroughput, handle(device),
                               NVML_PCIE_UTIL_TX_BYTES));
    DIVVY_TRY(received, ask_number(nvml_.nvmlDeviceGetPcieThroughput, handle(device),
                                   NVML_PCIE_UTIL_RX_BYTES));
    return Throughput{sent * kUnit, received * kUnit};
  }

  Result<std::uint64_t> nvlink_bytes(Device device) override {
    constexpr unsigned int kAllLinks = std::numeric_limits<unsigned int>::max();
    DIVVY_TRY(sent_kib, field(device, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, kAllLinks));
    DIVVY_TRY(received_kib, field(device, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, kAllLinks));
    return (sent_kib + received_kib) * 1024;
  }

  Result<Activity> activity(Device device) override { return gpm_.activity(handle(device)); }

  Result<std::uint64_t> corrected_memory_errors(Device device) override {
    return ask_wide(nvml_.nvmlDeviceGetTotalEccErrors, handle(device),
                    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC);
  }

  Result<std::uint64_t> uncorrected_memory_errors(Device device) override {
    return ask_wide(nvml_.nvmlDeviceGetTotalEccErrors, handle(device),
                    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
  }

  Result<RemappedRows> remapped_rows(Device device) override {
    unsigned int correctable = 0;
    unsigned int uncorrectable = 0;
    unsigned int pending = 0;
    unsigned int failed = 0;
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetRemappedRows, handle(device), &correctable,
                              &uncorrectable, &pending, &failed));
    return RemappedRows{correctable, uncorrectable, pending != 0, failed != 0};
  }

  Result<std::vector<std::uint32_t>> near_cpus(Device device) override {
    BitSet set{};
    DIVVY_RETURN_IF_ERROR(
        ask(nvml_.nvmlDeviceGetCpuAffinity, handle(device), size_of(set), set.data()));
    return members(set);
  }

  Result<std::vector<std::uint32_t>> near_numa_nodes(Device device) override {
    BitSet set{};
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetMemoryAffinity, handle(device), size_of(set),
                              set.data(), NVML_AFFINITY_SCOPE_NODE));
    return members(set);
  }

  Result<std::uint32_t> own_numa_node(Device device) override {
    return ask_number(nvml_.nvmlDeviceGetNumaNodeId, handle(device));
  }

  Result<Distance> distance(Device a, Device b) override {
    nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
    DIVVY_RETURN_IF_ERROR(
        ask(nvml_.nvmlDeviceGetTopologyCommonAncestor, handle(a), handle(b), &level));
    switch (level) {
      case NVML_TOPOLOGY_INTERNAL:
        return Distance::kSameBoard;
      case NVML_TOPOLOGY_SINGLE:
        return Distance::kOneSwitch;
      case NVML_TOPOLOGY_MULTIPLE:
        return Distance::kSeveralSwitches;
      case NVML_TOPOLOGY_HOSTBRIDGE:
        return Distance::kHostBridge;
      case NVML_TOPOLOGY_NODE:
        return Distance::kNumaNode;
      case NVML_TOPOLOGY_SYSTEM:
        return Distance::kSystem;
    }
    return err(ErrorCode::kUnsupported, "the driver answered with topology level {}",
               static_cast<unsigned int>(level));
  }

  Result<std::vector<NvlinkPort>> active_nvlinks(Device device) override {
    std::vector<NvlinkPort> active;
    for (unsigned int link = 0; link < kMostNvlinks; ++link) {
      nvmlEnableState_t state = NVML_FEATURE_DISABLED;
      const Status answer = ask(nvml_.nvmlDeviceGetNvLinkState, handle(device), link, &state);
      if (!answer) {
        // The library ends its list of links with an error; only the first answer tells whether
        // the GPU has links at all.
        const bool past_the_last = answer.error().code == ErrorCode::kInvalidArgument ||
                                   answer.error().code == ErrorCode::kUnsupported;
        if (link > 0 && past_the_last) break;
        return err(answer.error());
      }
      if (state == NVML_FEATURE_ENABLED) active.push_back(port(device, link));
    }
    return active;
  }

  Result<std::unique_ptr<XidEvents>> watch_xids(std::span<const Device> devices) override {
    if (nvml_.nvmlEventSetWait_v2 == nullptr) return err(missing());
    nvmlEventSet_t set = nullptr;
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlEventSetCreate, &set));
    auto events = std::make_unique<RealXidEvents>(nvml_, set);
    for (const Device device : devices) {
      DIVVY_RETURN_IF_ERROR(
          ask(nvml_.nvmlDeviceRegisterEvents, handle(device), nvmlEventTypeXidCriticalError, set));
    }
    return events;
  }

 private:
  template <typename T, std::size_t Size>
  static unsigned int size_of(const std::array<T, Size>&) {
    return static_cast<unsigned int>(Size);
  }

  static Error missing() { return to_error(NVML_ERROR_FUNCTION_NOT_FOUND); }

  template <typename... Parameters, typename... Arguments>
  Status ask(nvmlReturn_t (*function)(Parameters...), Arguments... arguments) const {
    if (function == nullptr) return err(missing());
    const nvmlReturn_t code = function(arguments...);
    if (code == NVML_SUCCESS) return {};
    const char* words = nvml_.nvmlErrorString != nullptr ? nvml_.nvmlErrorString(code) : nullptr;
    return err(to_error(code, words != nullptr ? words : ""));
  }

  // Adds to `found`. The list may grow between two calls, so that its size is only a hint.
  Status list_processes(nvmlReturn_t (*function)(nvmlDevice_t, unsigned int*, nvmlProcessInfo_t*),
                        Device device, std::vector<nvmlProcessInfo_t>& found) const {
    if (function == nullptr) return err(missing());
    std::vector<nvmlProcessInfo_t> infos(32);
    for (int attempt = 0; attempt < 8; ++attempt) {
      auto count = static_cast<unsigned int>(infos.size());
      const nvmlReturn_t code = function(handle(device), &count, infos.data());
      if (code == NVML_ERROR_INSUFFICIENT_SIZE) {
        infos.resize(std::max<std::size_t>(count, infos.size()) * 2);
        continue;
      }
      if (code != NVML_SUCCESS) return err(to_error(code));
      infos.resize(std::min<std::size_t>(count, infos.size()));
      found.insert(found.end(), infos.begin(), infos.end());
      return {};
    }
    return err(to_error(NVML_ERROR_INSUFFICIENT_SIZE));
  }

  // For the many functions whose last argument is where to put one number.
  template <typename... Parameters, typename... Arguments>
  Result<std::uint32_t> ask_number(nvmlReturn_t (*function)(Parameters...),
                                   Arguments... arguments) const {
    unsigned int number = 0;
    DIVVY_RETURN_IF_ERROR(ask(function, arguments..., &number));
    return number;
  }

  template <typename... Parameters, typename... Arguments>
  Result<std::uint64_t> ask_wide(nvmlReturn_t (*function)(Parameters...),
                                 Arguments... arguments) const {
    unsigned long long number = 0;
    DIVVY_RETURN_IF_ERROR(ask(function, arguments..., &number));
    return number;
  }

  // One of the numbered readings, which have an answer each.
  Result<std::uint64_t> field(Device device, unsigned int id, unsigned int scope = 0) const {
    nvmlFieldValue_t reading{};
    reading.fieldId = id;
    reading.scopeId = scope;
    DIVVY_RETURN_IF_ERROR(ask(nvml_.nvmlDeviceGetFieldValues, handle(device), 1, &reading));
    if (reading.nvmlReturn != NVML_SUCCESS) return err(to_error(reading.nvmlReturn));
    switch (reading.valueType) {
      case NVML_VALUE_TYPE_UNSIGNED_INT:
        return reading.value.uiVal;
      case NVML_VALUE_TYPE_UNSIGNED_LONG:
        return reading.value.ulVal;
      case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        return reading.value.ullVal;
      case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        return reading.value.usVal;
      case NVML_VALUE_TYPE_SIGNED_INT:
        return static_cast<std::uint64_t>(std::max(reading.value.siVal, 0));
      case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        return static_cast<std::uint64_t>(std::max(reading.value.sllVal, 0LL));
      case NVML_VALUE_TYPE_DOUBLE:
        return static_cast<std::uint64_t>(std::max(reading.value.dVal, 0.0));
    }
    return err(ErrorCode::kUnsupported, "the driver answered field {} with a value of type {}", id,
               static_cast<unsigned int>(reading.valueType));
  }

  NvlinkPort port(Device device, unsigned int link) const {
    NvlinkPort result;
    nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    if (ask(nvml_.nvmlDeviceGetNvLinkRemoteDeviceType, handle(device), link, &type)) {
      result.remote = type == NVML_NVLINK_DEVICE_TYPE_GPU       ? NvlinkPort::Remote::kGpu
                      : type == NVML_NVLINK_DEVICE_TYPE_SWITCH  ? NvlinkPort::Remote::kSwitch
                      : type == NVML_NVLINK_DEVICE_TYPE_UNKNOWN ? NvlinkPort::Remote::kUnknown
                                                                : NvlinkPort::Remote::kOther;
    }
    nvmlPciInfo_t info{};
    if (ask(nvml_.nvmlDeviceGetNvLinkRemotePciInfo_v2, handle(device), link, &info)) {
      if (const auto address = to_pci_address(info)) result.remote_pci = *address;
    }
    return result;
  }

  const Functions nvml_;
  Gpm gpm_;
  const bool simulated_;
};

}  // namespace

Result<std::unique_ptr<Library>> open(const OpenOptions& options) {
  DIVVY_TRY(functions, load_functions(options.path));
  const nvmlReturn_t code = functions.nvmlInit_v2();
  if (code != NVML_SUCCESS) {
    const char* words =
        functions.nvmlErrorString != nullptr ? functions.nvmlErrorString(code) : nullptr;
    return err(with_context(to_error(code, words != nullptr ? words : ""),
                            "NVML could not be initialised"));
  }
  return std::make_unique<RealLibrary>(functions, options.simulated);
}

}  // namespace divvy::nvml
