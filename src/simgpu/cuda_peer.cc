// Peer access between the GPUs of this machine.
#include "simgpu/driver.h"
#include "simgpu/topology.h"

namespace divvy::simgpu {
namespace {

bool are_peers(Driver& driver, CUdevice a, CUdevice b) {
  return a != b && peers(driver.shared(), driver.gpu_of(a), driver.gpu_of(b));
}

// A context that the program names as the peer.
CUresult check_peer(Driver& driver, Context* peer) {
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return driver.live(peer) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

SIMGPU_EXPORT CUresult cuDeviceCanAccessPeer(int* out, CUdevice device, CUdevice peer) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver.valid_device(device) || !call.driver.valid_device(peer)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *out = are_peers(call.driver, device, peer) ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Context* peer = context_of(handle);
  if (CUresult bad = check_peer(call.driver, context_of(handle))) return bad;
  if (!are_peers(call.driver, call.context->device, peer->device)) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  if (!call.context->peers.insert(peer->device).second) {
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult bad = check_peer(call.driver, context_of(handle))) return bad;
  if (call.context->peers.erase(context_of(handle)->device) == 0) {
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetP2PAttribute(int* out, CUdevice_P2PAttribute attribute,
                                               CUdevice device, CUdevice peer) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (!driver.valid_device(device) || !driver.valid_device(peer) || device == peer) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool reach = are_peers(driver, device, peer);
  const bool linked =
      links_between(driver.shared(), driver.gpu_of(device), driver.gpu_of(peer)) > 0;
  switch (attribute) {
    // Zero is the best there is.
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *out = linked ? 0 : 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *out = reach;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *out = linked;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
      *out = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace divvy::simgpu
