// Devices: counting, naming, attributes.

#include <array>
#include <cstring>
#include <string>

#include "gpu.h"

namespace divvy::conformance {

CASE(devices, are_counted_and_numbered_from_zero) {
  OK(cu.cuInit(0));
  int count = 0;
  OK(cu.cuDeviceGetCount(&count));
  TRUE_(count >= 1);
  t.note("count", static_cast<uint64_t>(count));
  CUdevice found = -7;
  OK(cu.cuDeviceGet(&found, count - 1));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&found, count));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&found, -1));
}

CASE(devices, unknown_ones_are_refused_everywhere) {
  OK(cu.cuInit(0));
  constexpr CUdevice kNone = 4711;
  size_t bytes = 0;
  int value = 0;
  unsigned flags = 0;
  CUuuid uuid{};
  CUcontext made = nullptr;
  std::array<char, 64> name{};
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceTotalMem_v2(&bytes, kNone));
  CODE(CUDA_ERROR_INVALID_DEVICE,
       cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, kNone));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGetName(name.data(), 64, kNone));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGetUuid_v2(&uuid, kNone));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxRetain(&made, kNone));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxGetState(kNone, &flags, &value));
  CODE(CUDA_ERROR_INVALID_DEVICE, cu.cuCtxCreate_v2(&made, 0, kNone));
}

CASE(devices, names_fit_the_buffer) {
  OK(cu.cuInit(0));
  std::array<char, 96> name{};
  OK(cu.cuDeviceGetName(name.data(), 96, 0));
  TRUE_(std::strlen(name.data()) > 3);
  t.note("name", std::string_view(name.data()));
  std::array<char, 96> part;
  part.fill('x');
  const CUresult code = cu.cuDeviceGetName(part.data(), 5, 0);
  t.recorded("short_buffer", code);
  if (code == CUDA_SUCCESS) TRUE_(std::memchr(part.data(), 0, 5) != nullptr);
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGetName(nullptr, 96, 0));
}

CASE(devices, attributes_agree_with_other_answers) {
  if (!start_gpu(t)) return;
  int major = 0;
  int minor = 0;
  OK(cu.cuDeviceComputeCapability(&major, &minor, device));
  EQUAL(static_cast<uint64_t>(major),
        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)));
  EQUAL(static_cast<uint64_t>(minor),
        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)));
  EQUAL(uint64_t{32}, static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE)));
  EQUAL(uint64_t{1024},
        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)));
  EQUAL(uint64_t{1},
        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)));
  EQUAL(uint64_t{1},
        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR)));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)));
  EQUAL(uint64_t{1},
        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)));
}

CASE(devices, every_attribute_is_written_down) {
  OK(cu.cuInit(0));
  for (unsigned i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; ++i) {
    int value = 0;
    const CUresult code = cu.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), 0);
    // Addresses on the bus differ from machine to machine.
    const bool place =
        i == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID || i == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ||
        i == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID || i == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ||
        i == CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID ||
        i == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
    const std::string key = "attribute_" + std::to_string(i);
    const std::string text =
        code == CUDA_SUCCESS ? std::to_string(value) : "error " + std::to_string(code);
    if (place) {
      t.note(key, text);
    } else {
      t.recorded(key, text);
    }
  }
}

CASE(devices, unknown_attributes_are_refused) {
  OK(cu.cuInit(0));
  int value = 0;
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(100'000), 0));
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
}

CASE(devices, pci_address_leads_back_to_the_device) {
  OK(cu.cuInit(0));
  std::array<char, 32> address{};
  OK(cu.cuDeviceGetPCIBusId(address.data(), 32, 0));
  t.note("pci", std::string_view(address.data()));
  EQUAL(uint64_t{12}, std::strlen(address.data()));
  CUdevice found = -1;
  OK(cu.cuDeviceGetByPCIBusId(&found, address.data()));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(found));
  t.recorded("unknown_address", cu.cuDeviceGetByPCIBusId(&found, "0000:fe:1f.0"));
  t.recorded("not_an_address", cu.cuDeviceGetByPCIBusId(&found, "cheese"));
  t.recorded("short_buffer", cu.cuDeviceGetPCIBusId(address.data(), 4, 0));
}

CASE(devices, uuid_is_the_one_that_nvml_says) {
  OK(cu.cuInit(0));
  CUuuid uuid{};
  OK(cu.cuDeviceGetUuid_v2(&uuid, 0));
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[(static_cast<unsigned char>(uuid.bytes[i]) >> 4U) & 15U];
    text += kDigits[static_cast<unsigned char>(uuid.bytes[i]) & 15U];
  }
  NVML_OK(nvml.nvmlInit_v2());
  nvmlDevice_t handle = nullptr;
  NVML_OK(nvml.nvmlDeviceGetHandleByUUID(text.c_str(), &handle));
}

CASE(devices, no_peer_access_to_itself) {
  OK(cu.cuInit(0));
  int can = 7;
  OK(cu.cuDeviceCanAccessPeer(&can, 0, 0));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(can));
  int value = 0;
  CODE(CUDA_ERROR_INVALID_DEVICE,
       cu.cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
}

CASE(devices, total_memory_is_the_same_everywhere) {
  if (!start_gpu(t)) return;
  size_t of_device = 0;
  size_t free = 0;
  size_t of_context = 0;
  OK(cu.cuDeviceTotalMem_v2(&of_device, device));
  OK(cu.cuMemGetInfo_v2(&free, &of_context));
  EQUAL(uint64_t{of_device}, uint64_t{of_context});
  TRUE_(free < of_context);
  t.note("total", uint64_t{of_device});
  t.note("free", uint64_t{free});
}

}  // namespace divvy::conformance
