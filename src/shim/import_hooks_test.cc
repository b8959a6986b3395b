// Imported memory counts. The driver is a handful of functions here, because the simulated one has
// no external memory.
#include <gtest/gtest.h>

#include <atomic>

#include "shim/joined_tenant.h"
#include "shim/overhead.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

constexpr uint64_t kGiB = 1U << 30U;

std::atomic<uint64_t> g_held_by_driver{0};
std::atomic<bool> g_measured{true};

class ImportTest : public ::testing::Test {
 protected:
  ImportTest() {
    joined_tenant().measure_with([](pid_t, uint32_t, uint64_t* bytes) {
      *bytes = g_held_by_driver;
      return g_measured.load();
    });
    g_measured = true;
    g_held_by_driver = 0;
    g_cuda.cuPointerGetAttribute = [](void* value, CUpointer_attribute, CUdeviceptr) {
      *static_cast<int*>(value) = 0;
      return CUDA_SUCCESS;
    };
    g_cuda.cuMemGetAddressRange_v2 = [](CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
      *base = pointer;
      *bytes = kGiB;
      return CUDA_SUCCESS;
    };
    g_cuda.cuImportExternalMemory = [](CUexternalMemory* out,
                                       const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*) {
      *out = reinterpret_cast<CUexternalMemory>(uintptr_t{0x100});
      return CUDA_SUCCESS;
    };
    g_cuda.cuDestroyExternalMemory = [](CUexternalMemory) { return CUDA_SUCCESS; };
    g_cuda.cuIpcOpenMemHandle_v2 = [](CUdeviceptr* out, CUipcMemHandle, unsigned) {
      *out = 0x7000000;
      return CUDA_SUCCESS;
    };
    g_cuda.cuIpcCloseMemHandle = [](CUdeviceptr) { return CUDA_SUCCESS; };
  }
  static uint64_t in_use() { return joined_tenant().bytes_in_use(0); }
};

TEST_F(ImportTest, CountsImportsOfExternalMemoryWhole) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC what{};
  what.size = kGiB;
  CUexternalMemory memory = nullptr;
  ASSERT_EQ(::cuImportExternalMemory(&memory, &what), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), kGiB);
  ASSERT_EQ(::cuDestroyExternalMemory(memory), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), 0U);
  what.size = 5 * kGiB;
  EXPECT_EQ(::cuImportExternalMemory(&memory, &what), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(in_use(), 0U);
}

// Memory of another process costs nothing while the driver lays it to that process, and all of it
// when the driver lays it to this one.
TEST_F(ImportTest, CountsImportsAsTheDriverLaysThem) {
  context_added(0);
  CUdeviceptr pointer = 0;
  ASSERT_EQ(::cuIpcOpenMemHandle_v2(&pointer, {}, 1), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), 0U);
  ASSERT_EQ(::cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  g_held_by_driver = kGiB;
  ASSERT_EQ(::cuIpcOpenMemHandle_v2(&pointer, {}, 1), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), kGiB);
  ASSERT_EQ(::cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  g_held_by_driver = 0;
  measure_overhead(0);
  EXPECT_EQ(in_use(), 0U);
  context_removed(0);
}

TEST_F(ImportTest, CountsImportsWholeWhenNobodyMeasures) {
  g_measured = false;
  CUdeviceptr pointer = 0;
  ASSERT_EQ(::cuIpcOpenMemHandle_v2(&pointer, {}, 1), CUDA_SUCCESS);
  ASSERT_EQ(::cuIpcOpenMemHandle_v2(&pointer, {}, 1), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), kGiB) << "opened twice, there once";
  ASSERT_EQ(::cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), kGiB);
  ASSERT_EQ(::cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  EXPECT_EQ(in_use(), 0U);
}

}  // namespace
}  // namespace divvy::shim
