// The simulated NVML: field values, the numbered readings that monitors ask for in one call.
#include <time.h>

#include "simgpu/nvml_call.h"
#include "simgpu/readings.h"
#include "simgpu/topology.h"

namespace divvy::simgpu {
namespace {

void put(nvmlFieldValue_t& field, unsigned int value) {
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
  field.value.uiVal = value;
  field.nvmlReturn = NVML_SUCCESS;
}

void put_wide(nvmlFieldValue_t& field, unsigned long long value) {
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
  field.value.ullVal = value;
  field.nvmlReturn = NVML_SUCCESS;
}

// One link in one direction, in MB/s, whatever the name of the field says.
unsigned int link_speed_mbps(const GpuSpec& spec) {
  switch (spec.link_version) {
    case 5:
      return 53'125;
    case 4:
      return 26'562;
    case 3:
      return 25'000;
    default:
      return 25'781;
  }
}

unsigned int active_links(const GpuSpec& spec) {
  unsigned int active = 0;
  for (uint32_t i = 0; i < spec.link_count; ++i) active += link_active(spec, i) ? 1 : 0;
  return active;
}

// False when the field is none of this group.
bool read_ecc(const Device& called, nvmlFieldValue_t& field) {
  const Faults& faults = called.gpu.faults;
  const bool remaps = called.spec().architecture >= NVML_DEVICE_ARCH_AMPERE;
  switch (field.fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
      put(field, 1);
      return true;
    case NVML_FI_DEV_ECC_PENDING:
      put(field, called.gpu.settings.ecc_off_pending.load() == 0 ? 1 : 0);
      return true;
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
    case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
      put_wide(field, faults.ecc_corrected.load());
      return true;
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
    case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
      put_wide(field, faults.ecc_uncorrected.load());
      return true;
    default:
      break;
  }
  if (!remaps) {
    switch (field.fieldId) {
      case NVML_FI_DEV_RETIRED_SBE:
        put(field, 0);
        return true;
      case NVML_FI_DEV_RETIRED_DBE:
        put(field, static_cast<unsigned int>(faults.ecc_uncorrected.load()));
        return true;
      case NVML_FI_DEV_RETIRED_PENDING:
        put(field, faults.remap_pending.load());
        return true;
      default:
        return false;
    }
  }
  switch (field.fieldId) {
    case NVML_FI_DEV_REMAPPED_COR:
      put(field, 0);
      return true;
    case NVML_FI_DEV_REMAPPED_UNC:
      put(field, faults.remapped_rows.load());
      return true;
    case NVML_FI_DEV_REMAPPED_PENDING:
      put(field, faults.remap_pending.load());
      return true;
    case NVML_FI_DEV_REMAPPED_FAILURE:
      put(field, faults.remap_failed.load());
      return true;
    default:
      return false;
  }
}

bool read_nvlink(const Device& called, nvmlFieldValue_t& field) {
  const GpuSpec& spec = called.spec();
  if (spec.link_count == 0) return false;
  switch (field.fieldId) {
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
      put(field, spec.link_count);
      return true;
    case NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT:
      put(field, spec.through_switch != 0 ? active_links(spec) : 0);
      return true;
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
      put(field, link_speed_mbps(spec));
      return true;
    case NVML_FI_DEV_NVLINK_GET_SPEED:
      put(field, link_active(spec, field.scopeId) ? link_speed_mbps(spec) : 0);
      return true;
    case NVML_FI_DEV_NVLINK_GET_STATE:
      put(field, link_active(spec, field.scopeId) ? 1 : 0);
      return true;
    case NVML_FI_DEV_NVLINK_GET_VERSION:
      put(field, spec.link_version);
      return true;
    case NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_BANDWIDTH_C0_TOTAL:
    case NVML_FI_DEV_NVLINK_BANDWIDTH_C1_TOTAL:
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
    case NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX:
    case NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX:
    case NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY:
    case NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY:
    case NVML_FI_DEV_NVLINK_ERROR_DL_CRC:
      put_wide(field, 0);
      return true;
    default:
      return false;
  }
}

bool read_power(const Device& called, nvmlFieldValue_t& field) {
  const Shared& shared = called.shared();
  switch (field.fieldId) {
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
      put_wide(field, energy_mj(shared, called.gpu));
      return true;
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
      put(field, power_mw(shared, called.gpu));
      return true;
    case NVML_FI_DEV_POWER_MIN_LIMIT:
      put(field, called.spec().power_limit_mw / 7 * 2);
      return true;
    case NVML_FI_DEV_POWER_MAX_LIMIT:
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
      put(field, called.spec().power_limit_mw);
      return true;
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
      put(field, power_limit_mw(called.gpu));
      return true;
    // Time lost to a limit is not kept.
    case NVML_FI_DEV_PERF_POLICY_POWER:
    case NVML_FI_DEV_PERF_POLICY_THERMAL:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN:
      put_wide(field, 0);
      return true;
    default:
      return false;
  }
}

bool read_rest(const Device& called, nvmlFieldValue_t& field) {
  constexpr unsigned int kRecoveryNone = 0;
  constexpr unsigned int kRecoveryReset = 1;
  switch (field.fieldId) {
    case NVML_FI_DEV_MEMORY_TEMP:
      // Only stacked memory has a sensor that is reported.
      if (called.spec().memory_bus_bits < 4096) return false;
      put(field, static_cast<unsigned int>(temperature_c(called.shared(), called.gpu) + 6));
      return true;
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
    case NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER:
    case NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER:
    case NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS:
    case NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR:
    case NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR:
    case NVML_FI_DEV_C2C_LINK_COUNT:
      put(field, 0);
      return true;
    case NVML_FI_DEV_PCIE_COUNT_TX_BYTES:
      put_wide(field, called.gpu.pcie_sent_bytes.load());
      return true;
    case NVML_FI_DEV_PCIE_COUNT_RX_BYTES:
      put_wide(field, called.gpu.pcie_received_bytes.load());
      return true;
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
      put(field, called.gpu.faults.ecc_pending.load() != 0 ? kRecoveryReset : kRecoveryNone);
      return true;
    default:
      return false;
  }
}

// A class of queries that was made to fail does so here too.
nvmlReturn_t answer(const Device& called, nvmlFieldValue_t& field, QueryClass queries,
                    bool (*read)(const Device&, nvmlFieldValue_t&)) {
  if (!read(called, field)) return NVML_ERROR_NOT_SUPPORTED;
  return gpu_answers(called.gpu, queries);
}

void read_field(const Device& called, nvmlFieldValue_t& field) {
  constexpr struct {
    QueryClass queries;
    bool (*read)(const Device&, nvmlFieldValue_t&);
  } kGroups[] = {{QueryClass::kEcc, read_ecc},
                 {QueryClass::kNvlink, read_nvlink},
                 {QueryClass::kPower, read_power},
                 {kNoClass, read_rest}};
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
  field.value.ullVal = 0;
  for (const auto& group : kGroups) {
    field.nvmlReturn = answer(called, field, group.queries, group.read);
    if (field.nvmlReturn != NVML_ERROR_NOT_SUPPORTED) return;
  }
}

}  // namespace
}  // namespace divvy::simgpu

namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                  nvmlFieldValue_t* values) {
  return sim::on_device(device, sim::kNoClass, {values}, [&](sim::Device& called) {
    if (count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
    timespec ts{};
    clock_gettime(CLOCK_REALTIME, &ts);
    for (int i = 0; i < count; ++i) {
      values[i].timestamp = static_cast<long long>(ts.tv_sec) * 1'000'000 + ts.tv_nsec / 1'000;
      values[i].latencyUsec = 0;
      sim::read_field(called, values[i]);
    }
    return NVML_SUCCESS;
  });
}
