#include "shim/joined_tenant.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "shim/real.h"
#include "shim/session.h"

namespace divvy::shim {
namespace {

constexpr uint8_t kUuid[16] = {1, 2, 3};
constexpr uint64_t kLimit = uint64_t{4} << 30U;

}  // namespace

FakeDaemon& joined_tenant() {
  static FakeDaemon* made = [] {
    FakeDaemon::Slice slice{};
    memcpy(slice.uuid, kUuid, sizeof kUuid);
    slice.memory_limit = kLimit;
    auto* fake = new FakeDaemon(
        ::testing::TempDir() + "joined-" + std::to_string(getpid()) + ".sock", {slice});
    setenv("DIVVY_SOCKET", fake->path().c_str(), 1);
    g_cuda.cuCtxGetDevice = [](CUdevice* device) {
      *device = 0;
      return CUDA_SUCCESS;
    };
    g_cuda.cuDeviceGetCount = [](int* count) {
      *count = 1;
      return CUDA_SUCCESS;
    };
    g_cuda.cuDeviceGetUuid_v2 = [](CUuuid* uuid, CUdevice) {
      memcpy(uuid, kUuid, sizeof kUuid);
      return CUDA_SUCCESS;
    };
    if (join() != Standing::kTenant) abort();
    devices_known();
    return fake;
  }();
  return *made;
}

}  // namespace divvy::shim
