// What NVML measures: utilisation, samples, field values, temperature, clocks, PCI Express, memory
// errors, NVLink, events and performance monitoring. Part of abi/nvml.h; abi/nvml_types.h says how
// these declarations relate to the toolkit's.

#ifndef DIVVY_ABI_NVML_TELEMETRY_TYPES_H
#define DIVVY_ABI_NVML_TELEMETRY_TYPES_H

#include "abi/nvml_types.h"

// Utilisation and samples.

struct nvmlUtilization_t {
  unsigned int gpu;
  unsigned int memory;
};

enum nvmlSamplingType_t : unsigned int {
  NVML_TOTAL_POWER_SAMPLES = 0,
  NVML_GPU_UTILIZATION_SAMPLES = 1,
  NVML_MEMORY_UTILIZATION_SAMPLES = 2,
  NVML_ENC_UTILIZATION_SAMPLES = 3,
  NVML_DEC_UTILIZATION_SAMPLES = 4,
  NVML_PROCESSOR_CLK_SAMPLES = 5,
  NVML_MEMORY_CLK_SAMPLES = 6,
  NVML_MODULE_POWER_SAMPLES = 7,
  NVML_JPG_UTILIZATION_SAMPLES = 8,
  NVML_OFA_UTILIZATION_SAMPLES = 9,
};

enum nvmlValueType_t : unsigned int {
  NVML_VALUE_TYPE_DOUBLE = 0,
  NVML_VALUE_TYPE_UNSIGNED_INT = 1,
  NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
  NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
  NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
  NVML_VALUE_TYPE_SIGNED_INT = 5,
  NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,
};

union nvmlValue_t {
  double dVal;
  int siVal;
  unsigned int uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  signed long long sllVal;
  unsigned short usVal;
};

struct nvmlSample_t {
  unsigned long long timeStamp;
  nvmlValue_t sampleValue;
};

// Field values: the ids that a monitor asks for.
constexpr unsigned int NVML_FI_DEV_ECC_CURRENT = 1;
constexpr unsigned int NVML_FI_DEV_ECC_PENDING = 2;
constexpr unsigned int NVML_FI_DEV_ECC_SBE_VOL_TOTAL = 3;
constexpr unsigned int NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 4;
constexpr unsigned int NVML_FI_DEV_ECC_SBE_AGG_TOTAL = 5;
constexpr unsigned int NVML_FI_DEV_ECC_DBE_AGG_TOTAL = 6;
constexpr unsigned int NVML_FI_DEV_RETIRED_SBE = 29;
constexpr unsigned int NVML_FI_DEV_RETIRED_DBE = 30;
constexpr unsigned int NVML_FI_DEV_RETIRED_PENDING = 31;
constexpr unsigned int NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38;
constexpr unsigned int NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45;
constexpr unsigned int NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52;
constexpr unsigned int NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59;
constexpr unsigned int NVML_FI_DEV_NVLINK_BANDWIDTH_C0_TOTAL = 66;
constexpr unsigned int NVML_FI_DEV_NVLINK_BANDWIDTH_C1_TOTAL = 73;
constexpr unsigned int NVML_FI_DEV_PERF_POLICY_POWER = 74;
constexpr unsigned int NVML_FI_DEV_PERF_POLICY_THERMAL = 75;
constexpr unsigned int NVML_FI_DEV_MEMORY_TEMP = 82;
constexpr unsigned int NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83;
constexpr unsigned int NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON = 90;
constexpr unsigned int NVML_FI_DEV_NVLINK_LINK_COUNT = 91;
constexpr unsigned int NVML_FI_DEV_PCIE_REPLAY_COUNTER = 94;
constexpr unsigned int NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER = 95;
constexpr unsigned int NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138;
constexpr unsigned int NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139;
constexpr unsigned int NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX = 140;
constexpr unsigned int NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX = 141;
constexpr unsigned int NVML_FI_DEV_REMAPPED_COR = 142;
constexpr unsigned int NVML_FI_DEV_REMAPPED_UNC = 143;
constexpr unsigned int NVML_FI_DEV_REMAPPED_PENDING = 144;
constexpr unsigned int NVML_FI_DEV_REMAPPED_FAILURE = 145;
constexpr unsigned int NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT = 147;
constexpr unsigned int NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY = 161;
constexpr unsigned int NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY = 162;
constexpr unsigned int NVML_FI_DEV_NVLINK_ERROR_DL_CRC = 163;
constexpr unsigned int NVML_FI_DEV_NVLINK_GET_SPEED = 164;
constexpr unsigned int NVML_FI_DEV_NVLINK_GET_STATE = 165;
constexpr unsigned int NVML_FI_DEV_NVLINK_GET_VERSION = 166;
constexpr unsigned int NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER = 169;
constexpr unsigned int NVML_FI_DEV_C2C_LINK_COUNT = 170;
constexpr unsigned int NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS = 173;
constexpr unsigned int NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR = 179;
constexpr unsigned int NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR = 180;
constexpr unsigned int NVML_FI_DEV_POWER_AVERAGE = 185;
constexpr unsigned int NVML_FI_DEV_POWER_INSTANT = 186;
constexpr unsigned int NVML_FI_DEV_POWER_MIN_LIMIT = 187;
constexpr unsigned int NVML_FI_DEV_POWER_MAX_LIMIT = 188;
constexpr unsigned int NVML_FI_DEV_POWER_DEFAULT_LIMIT = 189;
constexpr unsigned int NVML_FI_DEV_POWER_CURRENT_LIMIT = 190;
constexpr unsigned int NVML_FI_DEV_POWER_REQUESTED_LIMIT = 192;
constexpr unsigned int NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 197;
constexpr unsigned int NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 198;
constexpr unsigned int NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230;
constexpr unsigned int NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN = 269;
constexpr unsigned int NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN = 270;
constexpr unsigned int NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN = 271;

struct nvmlFieldValue_t {
  unsigned int fieldId;
  unsigned int scopeId;
  long long timestamp;
  long long latencyUsec;
  nvmlValueType_t valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
};

// Temperature, clocks and power states.

enum nvmlTemperatureSensors_t : unsigned int {
  NVML_TEMPERATURE_GPU = 0,
  NVML_TEMPERATURE_GPU_MAX = 1,
};

enum nvmlTemperatureThresholds_t : unsigned int {
  NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
  NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
  NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
  NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
  NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN = 4,
  NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR = 5,
  NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX = 6,
  NVML_TEMPERATURE_THRESHOLD_GPS_CURR = 7,
};

struct nvmlTemperature_v1_t {
  unsigned int version;
  nvmlTemperatureSensors_t sensorType;
  int temperature;
};

using nvmlTemperature_t = nvmlTemperature_v1_t;
constexpr unsigned int nvmlTemperature_v1 = nvml_struct_version<nvmlTemperature_v1_t>(1);

enum nvmlClockType_t : unsigned int {
  NVML_CLOCK_GRAPHICS = 0,
  NVML_CLOCK_SM = 1,
  NVML_CLOCK_MEM = 2,
  NVML_CLOCK_VIDEO = 3,
};

enum nvmlPstates_t : unsigned int {
  NVML_PSTATE_0 = 0,
  NVML_PSTATE_1 = 1,
  NVML_PSTATE_2 = 2,
  NVML_PSTATE_3 = 3,
  NVML_PSTATE_4 = 4,
  NVML_PSTATE_5 = 5,
  NVML_PSTATE_6 = 6,
  NVML_PSTATE_7 = 7,
  NVML_PSTATE_8 = 8,
  NVML_PSTATE_9 = 9,
  NVML_PSTATE_10 = 10,
  NVML_PSTATE_11 = 11,
  NVML_PSTATE_12 = 12,
  NVML_PSTATE_13 = 13,
  NVML_PSTATE_14 = 14,
  NVML_PSTATE_15 = 15,
  NVML_PSTATE_UNKNOWN = 32,
};

// Why clocks are held back: bits.
constexpr unsigned long long nvmlClocksEventReasonNone = 0x0;
constexpr unsigned long long nvmlClocksEventReasonGpuIdle = 0x1;
constexpr unsigned long long nvmlClocksEventReasonApplicationsClocksSetting = 0x2;
constexpr unsigned long long nvmlClocksEventReasonSwPowerCap = 0x4;
constexpr unsigned long long nvmlClocksEventReasonSyncBoost = 0x10;
constexpr unsigned long long nvmlClocksEventReasonSwThermalSlowdown = 0x20;
constexpr unsigned long long nvmlClocksEventReasonDisplayClockSetting = 0x100;
constexpr unsigned long long nvmlClocksThrottleReasonHwSlowdown = 0x8;
constexpr unsigned long long nvmlClocksThrottleReasonHwThermalSlowdown = 0x40;
constexpr unsigned long long nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80;

// PCI Express.

enum nvmlPcieUtilCounter_t : unsigned int {
  NVML_PCIE_UTIL_TX_BYTES = 0,
  NVML_PCIE_UTIL_RX_BYTES = 1,
};

// Memory errors.

enum nvmlMemoryErrorType_t : unsigned int {
  NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
  NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
};

enum nvmlEccCounterType_t : unsigned int {
  NVML_VOLATILE_ECC = 0,
  NVML_AGGREGATE_ECC = 1,
};

enum nvmlMemoryLocation_t : unsigned int {
  NVML_MEMORY_LOCATION_L1_CACHE = 0,
  NVML_MEMORY_LOCATION_L2_CACHE = 1,
  NVML_MEMORY_LOCATION_DRAM = 2,
  NVML_MEMORY_LOCATION_DEVICE_MEMORY = 2,
  NVML_MEMORY_LOCATION_REGISTER_FILE = 3,
  NVML_MEMORY_LOCATION_TEXTURE_MEMORY = 4,
  NVML_MEMORY_LOCATION_TEXTURE_SHM = 5,
  NVML_MEMORY_LOCATION_CBU = 6,
  NVML_MEMORY_LOCATION_SRAM = 7,
};

enum nvmlPageRetirementCause_t : unsigned int {
  NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
  NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1,
};

struct nvmlRowRemapperHistogramValues_t {
  unsigned int max;
  unsigned int high;
  unsigned int partial;
  unsigned int low;
  unsigned int none;
};

// NVLink.

enum nvmlNvLinkCapability_t : unsigned int {
  NVML_NVLINK_CAP_P2P_SUPPORTED = 0,
  NVML_NVLINK_CAP_SYSMEM_ACCESS = 1,
  NVML_NVLINK_CAP_P2P_ATOMICS = 2,
  NVML_NVLINK_CAP_SYSMEM_ATOMICS = 3,
  NVML_NVLINK_CAP_SLI_BRIDGE = 4,
  NVML_NVLINK_CAP_VALID = 5,
};

enum nvmlNvLinkErrorCounter_t : unsigned int {
  NVML_NVLINK_ERROR_DL_REPLAY = 0,
  NVML_NVLINK_ERROR_DL_RECOVERY = 1,
  NVML_NVLINK_ERROR_DL_CRC_FLIT = 2,
  NVML_NVLINK_ERROR_DL_CRC_DATA = 3,
  NVML_NVLINK_ERROR_DL_ECC_DATA = 4,
};

enum nvmlIntNvLinkDeviceType_t : unsigned int {
  NVML_NVLINK_DEVICE_TYPE_GPU = 0x0,
  NVML_NVLINK_DEVICE_TYPE_IBMNPU = 0x1,
  NVML_NVLINK_DEVICE_TYPE_SWITCH = 0x2,
  NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 0xff,
};

// Events: bits of nvmlDeviceRegisterEvents.
constexpr unsigned long long nvmlEventTypeNone = 0x0;
constexpr unsigned long long nvmlEventTypeSingleBitEccError = 0x1;
constexpr unsigned long long nvmlEventTypeDoubleBitEccError = 0x2;
constexpr unsigned long long nvmlEventTypePState = 0x4;
constexpr unsigned long long nvmlEventTypeXidCriticalError = 0x8;
constexpr unsigned long long nvmlEventTypeClock = 0x10;
constexpr unsigned long long nvmlEventTypePowerSourceChange = 0x80;
constexpr unsigned long long nvmlEventMigConfigChange = 0x100;
constexpr unsigned long long nvmlEventTypeSingleBitEccErrorStorm = 0x200;
constexpr unsigned long long nvmlEventTypeDramRetirementEvent = 0x400;
constexpr unsigned long long nvmlEventTypeDramRetirementFailure = 0x800;
constexpr unsigned long long nvmlEventTypeNonFatalPoisonError = 0x1000;
constexpr unsigned long long nvmlEventTypeFatalPoisonError = 0x2000;
constexpr unsigned long long nvmlEventTypeGpuUnavailableError = 0x4000;
constexpr unsigned long long nvmlEventTypeGpuRecoveryAction = 0x8000;

struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};

// GPU performance monitoring, on Hopper and later. Per-link and later ids are left out. The array
// of nvmlGpmMetricsGet_t has grown from driver to driver under one struct version; the library
// touches only the first `numMetrics` elements.

enum nvmlGpmMetricId_t : unsigned int {
  NVML_GPM_METRIC_GRAPHICS_UTIL = 1,
  NVML_GPM_METRIC_SM_UTIL = 2,
  NVML_GPM_METRIC_SM_OCCUPANCY = 3,
  NVML_GPM_METRIC_INTEGER_UTIL = 4,
  NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5,
  NVML_GPM_METRIC_DFMA_TENSOR_UTIL = 6,
  NVML_GPM_METRIC_HMMA_TENSOR_UTIL = 7,
  NVML_GPM_METRIC_DMMA_TENSOR_UTIL = 8,
  NVML_GPM_METRIC_IMMA_TENSOR_UTIL = 9,
  NVML_GPM_METRIC_DRAM_BW_UTIL = 10,
  NVML_GPM_METRIC_FP64_UTIL = 11,
  NVML_GPM_METRIC_FP32_UTIL = 12,
  NVML_GPM_METRIC_FP16_UTIL = 13,
  NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20,
  NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21,
  NVML_GPM_METRIC_NVDEC_0_UTIL = 30,
  NVML_GPM_METRIC_NVDEC_1_UTIL = 31,
  NVML_GPM_METRIC_NVDEC_2_UTIL = 32,
  NVML_GPM_METRIC_NVDEC_3_UTIL = 33,
  NVML_GPM_METRIC_NVDEC_4_UTIL = 34,
  NVML_GPM_METRIC_NVDEC_5_UTIL = 35,
  NVML_GPM_METRIC_NVDEC_6_UTIL = 36,
  NVML_GPM_METRIC_NVDEC_7_UTIL = 37,
  NVML_GPM_METRIC_NVJPG_0_UTIL = 40,
  NVML_GPM_METRIC_NVJPG_1_UTIL = 41,
  NVML_GPM_METRIC_NVJPG_2_UTIL = 42,
  NVML_GPM_METRIC_NVJPG_3_UTIL = 43,
  NVML_GPM_METRIC_NVJPG_4_UTIL = 44,
  NVML_GPM_METRIC_NVJPG_5_UTIL = 45,
  NVML_GPM_METRIC_NVJPG_6_UTIL = 46,
  NVML_GPM_METRIC_NVJPG_7_UTIL = 47,
  NVML_GPM_METRIC_NVOFA_0_UTIL = 50,
  NVML_GPM_METRIC_NVOFA_1_UTIL = 51,
  NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC = 60,
  NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC = 61,
  NVML_GPM_METRIC_MAX = 477,
};

struct nvmlGpmMetric_t {
  unsigned int metricId;
  nvmlReturn_t nvmlReturn;
  double value;
  struct {
    char* shortName;
    char* longName;
    char* unit;
  } metricInfo;
};

struct nvmlGpmMetricsGet_t {
  unsigned int version;
  unsigned int numMetrics;
  nvmlGpmSample_t sample1;
  nvmlGpmSample_t sample2;
  nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
};

constexpr unsigned int NVML_GPM_METRICS_GET_VERSION = 1;

struct nvmlGpmSupport_t {
  unsigned int version;
  unsigned int isSupportedDevice;
};

constexpr unsigned int NVML_GPM_SUPPORT_VERSION = 1;

#endif  // DIVVY_ABI_NVML_TELEMETRY_TYPES_H
