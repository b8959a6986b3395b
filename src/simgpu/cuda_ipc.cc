// Memory and events that another process opens.
//
// A memory handle names the owner's memfd and the place in it; the opener maps it through /proc and
// is not charged. An event handle names an entry of the shared table.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "simgpu/memory.h"
#include "simgpu/shared_files.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kMemoryMagic = 0x6364692d6d656d31;
constexpr uint64_t kEventMagic = 0x6364692d65767431;

struct MemoryHandle {
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  uint64_t file_id;  // inode, so that a reused pid or descriptor is noticed
  uint64_t offset;
  uint64_t size;
  int32_t gpu;
  uint32_t pad;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

struct EventHandle {
  uint64_t magic;
  int32_t pid;
  uint32_t index;
  uint32_t used;  // as IpcEvent::used was, so that a reused entry is noticed
  uint32_t flags;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

// IpcEvent::used says who made the entry: the process's slot and which of its lives.
uint32_t owner_mark(Driver& driver) {
  const uint32_t generation = driver.shared().slot[driver.slot()].generation.load();
  return 1 + static_cast<uint32_t>(driver.slot()) + (generation & 0x1fffffu) * kMaxProcesses;
}

bool owner_lives(Driver& driver, uint32_t mark) {
  const ProcessSlot& slot = driver.shared().slot[(mark - 1) % kMaxProcesses];
  return slot.state.load() != static_cast<uint32_t>(SlotState::kFree) &&
         (slot.generation.load() & 0x1fffffu) == (mark - 1) / kMaxProcesses;
}

// Lets go of entries whose events were destroyed here. Queued work may still record or await them,
// so an entry is kept until it has got to where it stood then.
void drop_ended(Driver& driver) {
  std::erase_if(driver.memory().ending_events, [&](const Memory::EndingEvent& ending) {
    IpcEvent& entry = driver.shared().ipc_event[ending.index];
    if (entry.completed.load() < ending.recorded) return false;
    if (entry.references.fetch_sub(1) == 1) entry.used.store(0);
    return true;
  });
}

// An entry nobody has; those of processes that died are taken over when no other is left.
int claim_entry(Driver& driver) {
  drop_ended(driver);
  const uint32_t mark = owner_mark(driver);
  Shared& shared = driver.shared();
  for (const bool take_over : {false, true}) {
    if (take_over) driver.state().reap();
    for (int i = 0; i < kMaxIpcEvents; ++i) {
      IpcEvent& entry = shared.ipc_event[i];
      uint32_t seen = entry.used.load();
      if (seen != 0 && (!take_over || owner_lives(driver, seen))) continue;
      if (!entry.used.compare_exchange_strong(seen, mark)) continue;
      entry.references.store(1);
      return i;
    }
  }
  return -1;
}

CUresult open_memory(CUdeviceptr* out, const CUipcMemHandle& raw, unsigned flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  MemoryHandle handle{};
  memcpy(&handle, &raw, sizeof(handle));
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
      handle.magic != kMemoryMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const int device = device_of_gpu(driver, handle.gpu);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  const auto* bytes = reinterpret_cast<const char*>(&raw);
  const std::vector<char> key(bytes, bytes + sizeof(raw));
  for (auto& [address, known] : driver.memory().imports) {
    if (known.key != key) continue;
    ++known.references;
    *out = address;
    return CUDA_SUCCESS;
  }
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  // The owner is gone, and its memory with it.
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  struct stat info{};
  IpcImport import;
  uint64_t address = 0;
  const bool same = fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_ino) == handle.file_id;
  if (same) address = map_shared_range(fd, handle.offset, handle.size, &import);
  close(fd);
  if (!same) return CUDA_ERROR_INVALID_HANDLE;
  if (address == 0) return CUDA_ERROR_MAP_FAILED;
  import.key = key;
  import.references = 1;
  driver.memory().imports.emplace(address, std::move(import));
  Allocation allocation;
  allocation.base = address;
  allocation.size = handle.size;
  allocation.kind = MemoryKind::kIpc;
  allocation.device = device;
  allocation.context = call.context;
  driver.map().insert(allocation);
  *out = address;
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Allocation* found = call.driver.map().find(address);
  if (out == nullptr || found == nullptr || found->kind != MemoryKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto where = device_memory(call.driver, found->device).arena.backing(found->base);
  struct stat info{};
  if (!where || fstat(where->fd, &info) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  MemoryHandle handle{};
  handle.magic = kMemoryMagic;
  handle.pid = getpid();
  handle.fd = where->fd;
  handle.file_id = static_cast<uint64_t>(info.st_ino);
  handle.offset = where->offset;
  handle.size = found->size;
  handle.gpu = call.driver.gpu_of(found->device);
  memset(out, 0, sizeof(*out));
  memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle,
                                          unsigned int flags) {
  return open_memory(out, handle, flags);
}

SIMGPU_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle,
                                             unsigned int flags) {
  return open_memory(out, handle, flags);
}

SIMGPU_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  const auto find = [&]() -> const Allocation* {
    const Allocation* found = driver.map().find(address);
    const bool ours = found != nullptr && found->base == address && found->kind == MemoryKind::kIpc;
    return ours ? found : nullptr;
  };
  if (find() == nullptr) return CUDA_ERROR_INVALID_VALUE;
  driver.synchronize(call.lock, *call.context);
  const Allocation* found = find();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Opened twice is closed twice.
  if (--driver.memory().imports[address].references == 0) free_any(driver, *found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent event_handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  Event* event = driver.resolve_event(event_handle);
  if (event == nullptr || event->imported || (event->flags & CU_EVENT_INTERPROCESS) == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (event->ipc < 0) {
    driver.engine().advance();
    const int index = claim_entry(driver);
    if (index < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    // The counts go on where the event's own stand, so that records already queued fit in.
    IpcEvent& entry = driver.shared().ipc_event[index];
    entry.recorded.store(event->recorded);
    entry.completed_at_ns.store(event->completed_at_ns);
    entry.completed.store(event->completed);
    event->ipc = index;
  }
  EventHandle handle{};
  handle.magic = kEventMagic;
  handle.pid = getpid();
  handle.index = static_cast<uint32_t>(event->ipc);
  handle.used = driver.shared().ipc_event[event->ipc].used.load();
  handle.flags = event->flags;
  memset(out, 0, sizeof(*out));
  memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle raw) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  EventHandle handle{};
  memcpy(&handle, &raw, sizeof(handle));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle.magic != kEventMagic || handle.index >= kMaxIpcEvents) return CUDA_ERROR_MAP_FAILED;
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  IpcEvent& entry = driver.shared().ipc_event[handle.index];
  // Joins only while somebody still holds it.
  uint32_t references = entry.references.load();
  do {
    if (references == 0 || entry.used.load() != handle.used) return CUDA_ERROR_INVALID_HANDLE;
  } while (!entry.references.compare_exchange_weak(references, references + 1));
  Event* event = driver.create_event(*call.context, handle.flags);
  event->ipc = static_cast<int>(handle.index);
  event->imported = true;
  event->recorded = entry.recorded.load();
  event->completed = entry.completed.load();
  *out = handle_of(event);
  return CUDA_SUCCESS;
}

void release_ipc_event(Driver& driver, Event& event) {
  if (event.ipc < 0) return;
  const IpcEvent& entry = driver.shared().ipc_event[event.ipc];
  driver.memory().ending_events.push_back({event.ipc, entry.recorded.load()});
  drop_ended(driver);
}

}  // namespace divvy::simgpu
