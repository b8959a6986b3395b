#include "shim/joined_tenant.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <string>

#include "shim/real.h"
#include "shim/session.h"

namespace divvy::shim {
namespace {

constexpr uint8_t kUuid[16] = {1, 2, 3};
constexpr uint64_t kLimit = uint64_t{4} << 30U;

// Not named by the process: numbers wrap round, and a socket that another left cannot be bound.
struct Folder {
  Folder() {
    if (mkdtemp(path.data()) == nullptr) abort();
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path = ::testing::TempDir() + "joined-XXXXXX";
};

}  // namespace

FakeDaemon& joined_tenant() {
  static FakeDaemon* made = [] {
    FakeDaemon::Slice slice{};
    memcpy(slice.uuid, kUuid, sizeof kUuid);
    slice.memory_limit = kLimit;
    static const Folder folder;
    auto* fake = new FakeDaemon(folder.path + "/daemon.sock", {slice});
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
