// Compares our declarations with a CUDA toolkit's where one is present at build time.
// CMakeLists.txt says which headers are looked for, and defines DIVVY_CUDA_COMPARABLE and
// DIVVY_NVML_COMPARABLE.

#include <gtest/gtest.h>

#include "abi/abi_facts.h"

namespace divvy::abi {
namespace {

[[maybe_unused]] void expect_same(const std::vector<Fact>& ours, const std::vector<Fact>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_STREQ(ours[i].name, theirs[i].name);
    EXPECT_EQ(ours[i].number, theirs[i].number) << ours[i].name;
    if (ours[i].shape != nullptr) {
      EXPECT_EQ(ours[i].shape(), theirs[i].shape()) << ours[i].name;
    }
  }
}

TEST(CudaDeclarations, AgreeWithTheToolkit) {
#ifdef DIVVY_CUDA_COMPARABLE
  expect_same(our_cuda_facts(), toolkit_cuda_facts());
#else
  GTEST_SKIP() << DIVVY_CUDA_SKIP_REASON;
#endif
}

TEST(NvmlDeclarations, AgreeWithTheToolkit) {
#ifdef DIVVY_NVML_COMPARABLE
  expect_same(our_nvml_facts(), toolkit_nvml_facts());
#else
  GTEST_SKIP() << DIVVY_NVML_SKIP_REASON;
#endif
}

}  // namespace
}  // namespace divvy::abi
