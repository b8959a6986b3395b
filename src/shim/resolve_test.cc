#include "shim/resolve.h"

#include <gtest/gtest.h>

#include "shim/real.h"

namespace divvy::shim {
namespace {

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

// A driver of which only some addresses matter; nothing of it is ever called, but the resolver.
class ResolveTest : public ::testing::Test {
 protected:
  ~ResolveTest() override { g_cuda = {}; }
  template <typename Function>
  static void* place(Function*& member, uintptr_t address) {
    member = reinterpret_cast<Function*>(address);
    return reinterpret_cast<void*>(address);
  }
  template <typename Function>
  static void* ours(Function* function) {
    return reinterpret_cast<void*>(function);
  }
};

TEST_F(ResolveTest, SwapsByTheAddressThatTheDriverGave) {
  void* plain = place(g_cuda.cuMemAllocAsync, 0x1000);
  void* twin = place(g_cuda.cuMemAllocAsync_ptsz, 0x2000);
  EXPECT_EQ(swap_entry_point("cuMemAllocAsync", 12000, 0, plain), ours(&::cuMemAllocAsync));
  EXPECT_EQ(swap_entry_point("cuMemAllocAsync", 12000, kPerThread, twin),
            ours(&::cuMemAllocAsync_ptsz));
  // Whatever was asked for, what the driver answered decides.
  EXPECT_EQ(swap_entry_point("cuMemAllocAsync", 12000, 0, twin), ours(&::cuMemAllocAsync_ptsz));
}

TEST_F(ResolveTest, OfSymbolsThatShareABodyTheOneAskedForIsGiven) {
  void* body = place(g_cuda.cuDevicePrimaryCtxRelease, 0x1000);
  place(g_cuda.cuDevicePrimaryCtxRelease_v2, 0x1000);
  EXPECT_EQ(swap_entry_point("cuDevicePrimaryCtxRelease", 12000, 0, body),
            ours(&::cuDevicePrimaryCtxRelease_v2));
  EXPECT_EQ(swap_entry_point("cuDevicePrimaryCtxRelease", 10000, 0, body),
            ours(&::cuDevicePrimaryCtxRelease));
}

TEST_F(ResolveTest, AnAddressThatIsNoSymbolGoesByVersionAndFlags) {
  void* hidden = reinterpret_cast<void*>(0x5000);
  EXPECT_EQ(swap_entry_point("cuMemAlloc", 12000, 0, hidden), ours(&::cuMemAlloc_v2));
  EXPECT_EQ(swap_entry_point("cuGraphLaunch", 12000, kPerThread, hidden),
            ours(&::cuGraphLaunch_ptsz));
  EXPECT_EQ(swap_entry_point("cuGraphLaunch", 12000, 0, hidden), ours(&::cuGraphLaunch));
  EXPECT_EQ(swap_entry_point("cuGetProcAddress", 11030, 0, hidden), ours(&::cuGetProcAddress));
  EXPECT_EQ(swap_entry_point("cuGetProcAddress", 12000, 0, hidden), ours(&::cuGetProcAddress_v2));
}

// A driver of the future answers a program of the future with a function that we do not know.
TEST_F(ResolveTest, AFunctionNewerThanTheListPasses) {
  g_cuda.cuGetProcAddress_v2 = [](const char*, void** out, int, cuuint64_t,
                                  CUdriverProcAddressQueryResult*) {
    *out = reinterpret_cast<void*>(0x6000);
    return CUDA_SUCCESS;
  };
  void* newer = reinterpret_cast<void*>(0x7000);
  EXPECT_EQ(swap_entry_point("cuMemAlloc", CUDA_VERSION + 10, 0, newer), newer);
  void* same = reinterpret_cast<void*>(0x6000);
  EXPECT_EQ(swap_entry_point("cuMemAlloc", CUDA_VERSION + 10, 0, same), ours(&::cuMemAlloc_v2));
}

TEST_F(ResolveTest, WhatIsNotHookedPasses) {
  void* theirs = reinterpret_cast<void*>(0x5000);
  EXPECT_EQ(swap_entry_point("cuDeviceGetName", 12000, 0, theirs), theirs);
  EXPECT_EQ(swap_entry_point("cuNoSuchFunction", 12000, 0, theirs), theirs);
  EXPECT_EQ(swap_entry_point("cuMemAlloc", 12000, 0, nullptr), nullptr);
  EXPECT_EQ(swap_entry_point(nullptr, 12000, 0, theirs), theirs);
  EXPECT_EQ(swap_symbol("malloc", theirs), theirs);
  EXPECT_EQ(wrapper_of("cuDeviceGetName"), nullptr);
  EXPECT_EQ(wrapper_of("nvmlShutdown"), nullptr);
  EXPECT_NE(wrapper_of("nvmlInit_v2"), nullptr);
}

}  // namespace
}  // namespace divvy::shim
