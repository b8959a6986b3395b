#include "gpuload/modes.h"

namespace divvy::gpuload {
namespace {

struct NamedAttribute {
  const char* name;
  CUdevice_attribute attribute;
};

constexpr NamedAttribute kShown[] = {
    {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"compute_major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {"compute_minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {"threads_per_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"shared_memory_per_block_optin", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {"l2_cache_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {"copy_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {"concurrent_kernels", CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {"compute_preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {"cooperative_launch", CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {"cluster_launch", CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH},
    {"stream_memory_operations_64_bit", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
    {"stream_wait_value_nor", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR},
    {"read_only_host_register", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
    {"memory_pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {"virtual_memory_management", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
    {"managed_memory", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {"concurrent_managed_access", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {"ipc_events", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
    {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
    {"mps", CU_DEVICE_ATTRIBUTE_MPS_ENABLED},
};

}  // namespace

void run_info(const Session& session, Report& report) {
  const DriverApi& cu = session.cu;
  int devices = 0;
  CU_CALL(cu, cuDeviceGetCount, &devices);
  size_t device_total = 0;
  CU_CALL(cu, cuDeviceTotalMem_v2, &device_total, session.device);
  size_t free = 0;
  size_t total = 0;
  CU_CALL(cu, cuMemGetInfo_v2, &free, &total);
  char pci[32] = {};
  CU_CALL(cu, cuDeviceGetPCIBusId, pci, 32, session.device);

  report.set("driver_version", cu.version);
  report.set("devices", devices);
  report.set("pci", std::string(pci));
  Report& memory = report.object("memory");
  memory.set("device_total_bytes", uint64_t{device_total});
  memory.set("context_total_bytes", uint64_t{total});
  memory.set("free_bytes", uint64_t{free});
  Report& attributes = report.object("attributes");
  for (const NamedAttribute& shown : kShown) {
    attributes.set(shown.name, session.attribute(shown.attribute));
  }
}

}  // namespace divvy::gpuload
