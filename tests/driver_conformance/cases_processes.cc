// More than one process: memory and events handed over, what a fork sees, what a death gives back.

#include <signal.h>
#include <unistd.h>

#include "gpu.h"

namespace divvy::conformance {
namespace {

bool start_quietly() {
  return cu.cuInit(0) == 0 && cu.cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
         cu.cuCtxSetCurrent(context) == 0;
}

}  // namespace

CASE(processes, memory_handles_travel) {
  Peer peer([](int socket) {
    CUipcMemHandle handle{};
    CUdeviceptr pointer = 0;
    if (!receive_bytes(socket, &handle, sizeof handle) || !start_quietly()) return 1;
    if (cu.cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != 0) {
      return 2;
    }
    if (word_at(pointer) != 777) return 3;
    if (cu.cuMemsetD32_v2(pointer, 888, 16) != 0 || cu.cuCtxSynchronize() != 0) return 4;
    if (cu.cuMemFree_v2(pointer) == 0) return 5;
    if (cu.cuIpcCloseMemHandle(pointer) != 0) return 6;
    if (cu.cuIpcCloseMemHandle(pointer) != CUDA_ERROR_INVALID_VALUE) return 7;
    return 0;
  });
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  CUipcMemHandle handle{};
  OK(cu.cuMemAlloc_v2(&pointer, 4 * kMiB));
  OK(cu.cuMemsetD32_v2(pointer, 777, 16));
  OK(cu.cuCtxSynchronize());
  OK(cu.cuIpcGetMemHandle(&handle, pointer));
  TRUE_(send_bytes(peer.socket(), &handle, sizeof handle));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(peer.wait()));
  EQUAL(uint64_t{888}, uint64_t{word_at(pointer)});
}

CASE(processes, own_memory_handle_is_refused) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  CUdeviceptr opened = 0;
  CUipcMemHandle handle{};
  OK(cu.cuMemAlloc_v2(&pointer, 4 * kMiB));
  OK(cu.cuIpcGetMemHandle(&handle, pointer));
  t.recorded("open", cu.cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  t.recorded("flags", cu.cuIpcOpenMemHandle_v2(&opened, handle, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuIpcGetMemHandle(nullptr, pointer));
  t.recorded("handle_of_nothing", cu.cuIpcGetMemHandle(&handle, 0x1234));
}

CASE(processes, event_handles_travel) {
  Peer peer([](int socket) {
    CUipcEventHandle handle{};
    CUevent event = nullptr;
    char byte = 0;
    if (!receive_bytes(socket, &handle, sizeof handle) || !start_quietly()) return 1;
    if (cu.cuIpcOpenEventHandle(&event, handle) != 0) return 2;
    if (cu.cuEventQuery(event) != CUDA_ERROR_NOT_READY) return 3;
    if (!send_bytes(socket, "q", 1) || !receive_bytes(socket, &byte, 1)) return 4;
    if (cu.cuEventSynchronize(event) != 0) return 5;
    return 0;
  });
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  CUipcEventHandle handle{};
  char byte = 0;
  OK(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(event, stream));
  OK(cu.cuIpcGetEventHandle(&handle, event));
  TRUE_(send_bytes(peer.socket(), &handle, sizeof handle));
  TRUE_(receive_bytes(peer.socket(), &byte, 1));
  gate.open();
  TRUE_(send_bytes(peer.socket(), "g", 1));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(peer.wait()));
  CUevent plain = nullptr;
  OK(cu.cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
  t.recorded("handle_of_an_ordinary_event", cu.cuIpcGetEventHandle(&handle, plain));
}

CASE(processes, another_processes_memory_is_seen) {
  Peer peer([](int socket) {
    CUdeviceptr pointer = 0;
    char byte = 0;
    if (!receive_bytes(socket, &byte, 1) || !start_quietly()) return 1;
    if (cu.cuMemAlloc_v2(&pointer, 256 * kMiB) != 0) return 2;
    send_bytes(socket, "a", 1);
    return receive_bytes(socket, &byte, 1) ? 0 : 3;
  });
  if (!start_gpu(t)) return;
  char byte = 0;
  const uint64_t before = free_bytes();
  TRUE_(send_bytes(peer.socket(), "g", 1));
  TRUE_(receive_bytes(peer.socket(), &byte, 1));
  const uint64_t during = free_bytes();
  TRUE_(during + 256 * kMiB < before);
  t.note("cost_of_a_second_process", before - during - 256 * kMiB);
  TRUE_(send_bytes(peer.socket(), "e", 1));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(peer.wait()));
  EQUAL(before, free_bytes());
}

CASE(processes, a_killed_process_gives_everything_back) {
  Peer peer([](int socket) {
    CUdeviceptr pointer = 0;
    char byte = 0;
    if (!receive_bytes(socket, &byte, 1) || !start_quietly()) return 1;
    if (cu.cuMemAlloc_v2(&pointer, 512 * kMiB) != 0) return 2;
    send_bytes(socket, "a", 1);
    receive_bytes(socket, &byte, 1);
    return 0;
  });
  if (!start_gpu(t)) return;
  char byte = 0;
  const uint64_t before = free_bytes();
  TRUE_(send_bytes(peer.socket(), "g", 1));
  TRUE_(receive_bytes(peer.socket(), &byte, 1));
  TRUE_(free_bytes() < before);
  kill(peer.pid(), SIGKILL);
  EQUAL(uint64_t{1000 + SIGKILL}, static_cast<uint64_t>(peer.wait()));
  EQUAL(before, free_bytes());
}

CASE(processes, fork_before_init_gives_a_working_child) {
  Peer peer([](int) {
    CUdeviceptr pointer = 0;
    return start_quietly() && cu.cuMemAlloc_v2(&pointer, kMiB) == 0 ? 0 : 1;
  });
  if (!start_gpu(t)) return;
  EQUAL(uint64_t{0}, static_cast<uint64_t>(peer.wait()));
}

CASE(processes, fork_after_init_gives_a_child_without_a_driver) {
  if (!start_gpu(t)) return;
  struct Codes {
    CUresult init;
    CUresult count;
    CUresult current;
    CUresult allocation;
    CUresult retain;
  } codes{};
  Peer peer([](int socket) {
    Codes seen{};
    int count = 0;
    CUcontext current = nullptr;
    CUdeviceptr pointer = 0;
    seen.init = cu.cuInit(0);
    seen.count = cu.cuDeviceGetCount(&count);
    seen.current = cu.cuCtxGetCurrent(&current);
    seen.allocation = cu.cuMemAlloc_v2(&pointer, 4096);
    seen.retain = cu.cuDevicePrimaryCtxRetain(&current, 0);
    return send_bytes(socket, &seen, sizeof seen) ? 0 : 1;
  });
  TRUE_(receive_bytes(peer.socket(), &codes, sizeof codes));
  t.recorded("init", codes.init);
  t.recorded("device_count", codes.count);
  t.recorded("current_context", codes.current);
  t.recorded("allocation", codes.allocation);
  t.recorded("retain", codes.retain);
  peer.wait();
  // The parent goes on as before.
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 4096));
  OK(cu.cuMemsetD32_v2(pointer, 5, 16));
  EQUAL(uint64_t{5}, uint64_t{word_at(pointer)});
}

}  // namespace divvy::conformance
