// Our own declarations of NVML's types, as far as this tree uses them, for the simulated driver,
// the nvml room and the shim; no toolkit is needed to build. Names, values and layouts are those of
// NVML's binary interface, so they keep its spelling and live in no namespace. There is no code
// here.
//
// Enumerations have a fixed underlying type although NVML's have none: a library of another version
// may hand out a number that is not listed, and with a fixed type reading it is well defined. For
// the same reason the `..._COUNT` enumerators, which change from driver to driver, are left out.
//
// Never include this in a translation unit that includes the toolkit's nvml.h: the names collide.
// Where a toolkit is present, abi_toolkit_test compares the two.

#ifndef DIVVY_ABI_NVML_TYPES_H
#define DIVVY_ABI_NVML_TYPES_H

// Objects that belong to the library: nobody else looks behind these pointers.
using nvmlDevice_t = struct nvmlDevice_st*;
using nvmlEventSet_t = struct nvmlEventSet_st*;
using nvmlGpmSample_t = struct nvmlGpmSample_st*;

enum nvmlReturn_t : unsigned int {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_ALREADY_INITIALIZED = 5,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_INSUFFICIENT_POWER = 8,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_IRQ_ISSUE = 11,
  NVML_ERROR_LIBRARY_NOT_FOUND = 12,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_CORRUPTED_INFOROM = 14,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_RESET_REQUIRED = 16,
  NVML_ERROR_OPERATING_SYSTEM = 17,
  NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
  NVML_ERROR_IN_USE = 19,
  NVML_ERROR_MEMORY = 20,
  NVML_ERROR_NO_DATA = 21,
  NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
  NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
  NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_DEPRECATED = 26,
  NVML_ERROR_NOT_READY = 27,
  NVML_ERROR_GPU_NOT_FOUND = 28,
  NVML_ERROR_INVALID_STATE = 29,
  NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
  NVML_ERROR_UNKNOWN = 999,
};

// Flags of nvmlInitWithFlags.
constexpr unsigned int NVML_INIT_FLAG_NO_GPUS = 0x1;
constexpr unsigned int NVML_INIT_FLAG_NO_ATTACH = 0x2;

// Sizes of the text buffers that callers bring, terminating zero included.
constexpr unsigned int NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80;
constexpr unsigned int NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE = 80;
constexpr unsigned int NVML_DEVICE_NAME_BUFFER_SIZE = 64;
constexpr unsigned int NVML_DEVICE_NAME_V2_BUFFER_SIZE = 96;
constexpr unsigned int NVML_DEVICE_UUID_BUFFER_SIZE = 80;
constexpr unsigned int NVML_DEVICE_UUID_V2_BUFFER_SIZE = 96;
constexpr unsigned int NVML_DEVICE_SERIAL_BUFFER_SIZE = 30;
constexpr unsigned int NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE = 32;
constexpr unsigned int NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE = 32;
constexpr unsigned int NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE = 16;

// What a 64-bit number says that could not be measured.
constexpr int NVML_VALUE_NOT_AVAILABLE = -1;

// The `version` member of a versioned struct: its size, and its version in the top byte.
template <typename Struct>
constexpr unsigned int nvml_struct_version(unsigned int version) {
  return static_cast<unsigned int>(sizeof(Struct)) | (version << 24U);
}

enum nvmlEnableState_t : unsigned int {
  NVML_FEATURE_DISABLED = 0,
  NVML_FEATURE_ENABLED = 1,
};

// Identity.

struct nvmlPciInfo_t {
  char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pciDeviceId;
  unsigned int pciSubSystemId;
  char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
};

enum nvmlBrandType_t : unsigned int {
  NVML_BRAND_UNKNOWN = 0,
  NVML_BRAND_QUADRO = 1,
  NVML_BRAND_TESLA = 2,
  NVML_BRAND_NVS = 3,
  NVML_BRAND_GRID = 4,
  NVML_BRAND_GEFORCE = 5,
  NVML_BRAND_TITAN = 6,
  NVML_BRAND_NVIDIA_VAPPS = 7,
  NVML_BRAND_NVIDIA_VPC = 8,
  NVML_BRAND_NVIDIA_VCS = 9,
  NVML_BRAND_NVIDIA_VWS = 10,
  NVML_BRAND_NVIDIA_CLOUD_GAMING = 11,
  NVML_BRAND_NVIDIA_VGAMING = 11,
  NVML_BRAND_QUADRO_RTX = 12,
  NVML_BRAND_NVIDIA_RTX = 13,
  NVML_BRAND_NVIDIA = 14,
  NVML_BRAND_GEFORCE_RTX = 15,
  NVML_BRAND_TITAN_RTX = 16,
  NVML_BRAND_NVIDIA_DLA = 17,
  NVML_BRAND_NVIDIA_VGAMEDEV = 18,
  NVML_BRAND_NVIDIA_NPU = 19,
};

using nvmlDeviceArchitecture_t = unsigned int;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_KEPLER = 2;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_MAXWELL = 3;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_PASCAL = 4;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_VOLTA = 5;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_TURING = 6;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_AMPERE = 7;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_ADA = 8;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_HOPPER = 9;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_BLACKWELL = 10;
constexpr nvmlDeviceArchitecture_t NVML_DEVICE_ARCH_UNKNOWN = 0xffffffff;

enum nvmlComputeMode_t : unsigned int {
  NVML_COMPUTEMODE_DEFAULT = 0,
  NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
  NVML_COMPUTEMODE_PROHIBITED = 2,
  NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
};

// Affinity and topology.

using nvmlAffinityScope_t = unsigned int;
constexpr nvmlAffinityScope_t NVML_AFFINITY_SCOPE_NODE = 0;
constexpr nvmlAffinityScope_t NVML_AFFINITY_SCOPE_SOCKET = 1;

enum nvmlGpuTopologyLevel_t : unsigned int {
  NVML_TOPOLOGY_INTERNAL = 0,
  NVML_TOPOLOGY_SINGLE = 10,
  NVML_TOPOLOGY_MULTIPLE = 20,
  NVML_TOPOLOGY_HOSTBRIDGE = 30,
  NVML_TOPOLOGY_NODE = 40,
  NVML_TOPOLOGY_SYSTEM = 50,
};

constexpr nvmlGpuTopologyLevel_t NVML_TOPOLOGY_CPU = NVML_TOPOLOGY_NODE;

enum nvmlGpuP2PStatus_t : unsigned int {
  NVML_P2P_STATUS_OK = 0,
  NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED = 1,
  NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
  NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
  NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
  NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4,
  NVML_P2P_STATUS_NOT_SUPPORTED = 5,
  NVML_P2P_STATUS_UNKNOWN = 6,
};

enum nvmlGpuP2PCapsIndex_t : unsigned int {
  NVML_P2P_CAPS_INDEX_READ = 0,
  NVML_P2P_CAPS_INDEX_WRITE = 1,
  NVML_P2P_CAPS_INDEX_NVLINK = 2,
  NVML_P2P_CAPS_INDEX_ATOMICS = 3,
  NVML_P2P_CAPS_INDEX_PCI = 4,
  NVML_P2P_CAPS_INDEX_PROP = 4,
  NVML_P2P_CAPS_INDEX_UNKNOWN = 5,
};

// Memory.

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlMemory_v2_t {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

constexpr unsigned int nvmlMemory_v2 = nvml_struct_version<nvmlMemory_v2_t>(2);

struct nvmlBAR1Memory_t {
  unsigned long long bar1Total;
  unsigned long long bar1Free;
  unsigned long long bar1Used;
};

// Memory limits of a control group, from driver r615 on. A hard limit of
// NVML_DEVICE_MEMORY_LIMIT_MAX with a soft limit of 0 takes the limit away.
constexpr unsigned long long NVML_DEVICE_MEMORY_LIMIT_MAX = 0xffffffffffffffffULL;

struct nvmlSetMemoryLimits_v1_t {
  const char* nameSpace;
  unsigned long long softLimit;
  unsigned long long hardLimit;
};

struct nvmlGetMemoryLimits_v1_t {
  const char* nameSpace;
  unsigned long long softLimit;
  unsigned long long hardLimit;
  unsigned long long currentUsed;
};

// Processes. The entry points without a suffix take _v1; _v2 and _v3 of them take _v2.

struct nvmlProcessInfo_v1_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;
};

struct nvmlProcessInfo_v2_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};

using nvmlProcessInfo_t = nvmlProcessInfo_v2_t;

enum nvmlProcessMode_t : unsigned int {
  NVML_PROCESS_MODE_COMPUTE = 0,
  NVML_PROCESS_MODE_GRAPHICS = 1,
  NVML_PROCESS_MODE_MPS = 2,
  NVML_PROCESS_MODE_ALL = 3,
};

struct nvmlProcessDetail_v1_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
  unsigned long long usedGpuCcProtectedMemory;
};

struct nvmlProcessDetailList_v1_t {
  unsigned int version;
  unsigned int mode;
  unsigned int numProcArrayEntries;
  nvmlProcessDetail_v1_t* procArray;
};

using nvmlProcessDetailList_t = nvmlProcessDetailList_v1_t;
constexpr unsigned int nvmlProcessDetailList_v1 =
    nvml_struct_version<nvmlProcessDetailList_v1_t>(1);

struct nvmlProcessUtilizationSample_t {
  unsigned int pid;
  unsigned long long timeStamp;
  unsigned int smUtil;
  unsigned int memUtil;
  unsigned int encUtil;
  unsigned int decUtil;
};

struct nvmlProcessUtilizationInfo_v1_t {
  unsigned long long timeStamp;
  unsigned int pid;
  unsigned int smUtil;
  unsigned int memUtil;
  unsigned int encUtil;
  unsigned int decUtil;
  unsigned int jpgUtil;
  unsigned int ofaUtil;
};

struct nvmlProcessesUtilizationInfo_v1_t {
  unsigned int version;
  unsigned int processSamplesCount;
  unsigned long long lastSeenTimeStamp;
  nvmlProcessUtilizationInfo_v1_t* procUtilArray;
};

using nvmlProcessesUtilizationInfo_t = nvmlProcessesUtilizationInfo_v1_t;
constexpr unsigned int nvmlProcessesUtilizationInfo_v1 =
    nvml_struct_version<nvmlProcessesUtilizationInfo_v1_t>(1);

struct nvmlAccountingStats_t {
  unsigned int gpuUtilization;
  unsigned int memoryUtilization;
  unsigned long long maxMemoryUsage;
  unsigned long long time;
  unsigned long long startTime;
  unsigned int isRunning;
  unsigned int reserved[5];
};

#endif  // DIVVY_ABI_NVML_TYPES_H
