#include "nvml/error.h"

#include <gtest/gtest.h>

namespace divvy::nvml {
namespace {

TEST(NvmlError, KeepsTheLibrarysWords) {
  EXPECT_EQ(to_error(NVML_ERROR_NOT_SUPPORTED, "Nicht unterstützt").message, "Nicht unterstützt");
  EXPECT_EQ(to_error(NVML_ERROR_NOT_SUPPORTED).message, "Not Supported");
}

TEST(NvmlError, TellsALostGpuFromEveryOtherFailure) {
  for (unsigned int code = 1; code <= 30; ++code) {
    const Error error = to_error(static_cast<nvmlReturn_t>(code));
    EXPECT_EQ(says_gpu_is_lost(error), code == NVML_ERROR_GPU_IS_LOST) << code;
    EXPECT_EQ(says_reset_is_required(error), code == NVML_ERROR_RESET_REQUIRED) << code;
  }
}

TEST(NvmlError, TakesCodesThatItDoesNotKnow) {
  EXPECT_EQ(to_error(static_cast<nvmlReturn_t>(4711)).code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace divvy::nvml
