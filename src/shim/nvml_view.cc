#include "shim/nvml_view.h"

#include <string.h>
#include <unistd.h>

#include "shim/nvml_real.h"
#include "shim/visibility.h"

namespace divvy::shim {

unsigned int visible_slices() {
  const wire::ControlPage* page = control();
  if (page == nullptr) return 0;
  return page->gpu_count < wire::kMaxGpus ? page->gpu_count : wire::kMaxGpus;
}

int slice_of_handle(nvmlDevice_t device) {
  const wire::ControlPage* page = control();
  char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
  if (page == nullptr || !have_nvml(g_nvml.nvmlDeviceGetUUID) ||
      g_nvml.nvmlDeviceGetUUID(device, text, sizeof text) != NVML_SUCCESS) {
    return -1;
  }
  for (unsigned int i = 0; i < visible_slices(); ++i) {
    char uuid[kUuidTextBytes];
    write_uuid(page->gpu[i].uuid, uuid);
    if (strcmp(uuid, text) == 0) return static_cast<int>(i);
  }
  return -1;
}

nvmlReturn_t handle_of_slice(int slice, nvmlDevice_t* device) {
  const wire::ControlPage* page = control();
  if (page == nullptr || !have_nvml(g_nvml.nvmlDeviceGetHandleByUUID)) {
    return NVML_ERROR_UNINITIALIZED;
  }
  char uuid[kUuidTextBytes];
  write_uuid(page->gpu[slice].uuid, uuid);
  return g_nvml.nvmlDeviceGetHandleByUUID(uuid, device);
}

bool is_tenants_process(unsigned int* pid) {
  wire::AccountPage* page = nullptr;
  int own_slot = 0;
  if (!account_seat(&page, &own_slot)) return false;
  uint32_t slots = page->slot_high.load();
  if (slots > wire::kMaxProcesses) slots = wire::kMaxProcesses;
  for (uint32_t i = 0; i < slots; ++i) {
    const wire::AccountSlot& slot = page->slot[i];
    if ((slot.generation.load() & 1U) == 0) continue;
    if (slot.pid.load() != static_cast<int32_t>(*pid)) continue;
    if (static_cast<int>(i) == own_slot) *pid = static_cast<unsigned int>(getpid());
    return true;
  }
  return false;
}

}  // namespace divvy::shim
