// The simulated libnvidia-ml.so.1: events, memory errors and remapped rows.
#include <thread>

#include "simgpu/fault.h"
#include "simgpu/nvml_fixture.h"

namespace divvy::simgpu {
namespace {

// Longer than any test takes: a wait that ends in time ends because of its event.
constexpr unsigned int kLongMs = 120'000;

class NvmlEventsTest : public NvmlFixture {
 protected:
  void watch(unsigned int index, unsigned long long types) {
    if (set_ == nullptr) {
      ASSERT_EQ(nvmlEventSetCreate(&set_), NVML_SUCCESS);
    }
    ASSERT_EQ(nvmlDeviceRegisterEvents(device(index), types, set_), NVML_SUCCESS);
  }
  ~NvmlEventsTest() override {
    if (set_ != nullptr) nvmlEventSetFree(set_);
  }

  nvmlEventSet_t set_ = nullptr;
  nvmlEventData_t data_{};
};

TEST_F(NvmlEventsTest, DeliversAnXidToWhoWaits) {
  start_nvml("2");
  watch(0, nvmlEventTypeXidCriticalError);
  watch(1, nvmlEventTypeXidCriticalError);
  nvmlReturn_t result = NVML_ERROR_UNKNOWN;
  std::thread waiter([&] { result = nvmlEventSetWait_v2(set_, &data_, kLongMs); });
  inject_xid(state(), 1, 31);
  waiter.join();
  EXPECT_EQ(result, NVML_SUCCESS);
  EXPECT_EQ(data_.device, device(1));
  EXPECT_EQ(data_.eventType, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(data_.eventData, 31U);
  EXPECT_EQ(nvmlEventSetWait_v2(set_, &data_, 0), NVML_ERROR_TIMEOUT);
}

TEST_F(NvmlEventsTest, ForgetsWhatHappenedBeforeItWatched) {
  start_nvml("1");
  inject_xid(state(), 0, 13);
  watch(0, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(nvmlEventSetWait_v2(set_, &data_, 0), NVML_ERROR_TIMEOUT);
}

TEST_F(NvmlEventsTest, DeliversInOrderAndOnlyWhatWasAskedFor) {
  start_nvml("1");
  watch(0, nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError);
  inject_corrected_ecc(state(), 0, 1);
  inject_uncorrected_ecc(state(), 0);
  ASSERT_EQ(nvmlEventSetWait_v2(set_, &data_, 0), NVML_SUCCESS);
  EXPECT_EQ(data_.eventType, nvmlEventTypeDoubleBitEccError);
  ASSERT_EQ(nvmlEventSetWait_v2(set_, &data_, 0), NVML_SUCCESS);
  EXPECT_EQ(data_.eventData, 48U);
  EXPECT_EQ(nvmlEventSetWait_v2(set_, &data_, 0), NVML_ERROR_TIMEOUT);
}

TEST_F(NvmlEventsTest, ASlowWatcherLosesOnlyTheOldest) {
  start_nvml("1");
  watch(0, nvmlEventTypeXidCriticalError);
  for (uint64_t xid = 1; xid <= kXidRing + 5; ++xid) inject_xid(state(), 0, xid);
  ASSERT_EQ(nvmlEventSetWait_v2(set_, &data_, 0), NVML_SUCCESS);
  EXPECT_EQ(data_.eventData, 6U);
  int rest = 0;
  while (nvmlEventSetWait_v2(set_, &data_, 0) == NVML_SUCCESS) ++rest;
  EXPECT_EQ(rest, kXidRing - 1);
}

TEST_F(NvmlEventsTest, ALostGpuIsReportedAndThenEndsTheWaiting) {
  start_nvml("2");
  watch(0, nvmlEventTypeXidCriticalError);
  watch(1, nvmlEventTypeXidCriticalError);
  lose_gpu(state(), 0);
  ASSERT_EQ(nvmlEventSetWait_v2(set_, &data_, kLongMs), NVML_SUCCESS);
  EXPECT_EQ(data_.eventData, 79U);
  EXPECT_EQ(nvmlEventSetWait_v2(set_, &data_, kLongMs), NVML_ERROR_GPU_IS_LOST);
}

TEST_F(NvmlEventsTest, RefusesEventsThatItDoesNotKnow) {
  start_nvml("1");
  ASSERT_EQ(nvmlEventSetCreate(&set_), NVML_SUCCESS);
  unsigned long long types = 0;
  ASSERT_EQ(nvmlDeviceGetSupportedEventTypes(device(0), &types), NVML_SUCCESS);
  EXPECT_NE(types & nvmlEventTypeXidCriticalError, 0U);
  EXPECT_EQ(nvmlDeviceRegisterEvents(device(0), 1ULL << 60U, set_), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(nvmlDeviceRegisterEvents(device(0), nvmlEventTypeNone, set_),
            NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlEventSetWait_v2(nullptr, &data_, 0), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlEventsTest, CountsMemoryErrorsAndRows) {
  start_nvml("1");
  inject_corrected_ecc(state(), 0, 4);
  inject_uncorrected_ecc(state(), 0);
  set_row_remap(state(), 0, {.remapped = 2, .pending = true, .failed = false});
  unsigned long long count = 0;
  EXPECT_EQ(nvmlDeviceGetTotalEccErrors(device(0), NVML_MEMORY_ERROR_TYPE_CORRECTED,
                                        NVML_VOLATILE_ECC, &count),
            NVML_SUCCESS);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(nvmlDeviceGetMemoryErrorCounter(device(0), NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                            NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_DRAM, &count),
            NVML_SUCCESS);
  EXPECT_EQ(count, 1U);
  unsigned int rows[4] = {};
  EXPECT_EQ(nvmlDeviceGetRemappedRows(device(0), &rows[0], &rows[1], &rows[2], &rows[3]),
            NVML_SUCCESS);
  EXPECT_EQ(rows[1], 2U);
  EXPECT_EQ(rows[2], 1U);
  EXPECT_EQ(rows[3], 0U);
  nvmlRowRemapperHistogramValues_t histogram{};
  EXPECT_EQ(nvmlDeviceGetRowRemapperHistogram(device(0), &histogram), NVML_SUCCESS);
  EXPECT_EQ(histogram.high, 2U);
}

TEST_F(NvmlEventsTest, OlderCardsRetirePagesInsteadOfRows) {
  start_nvml("1xT4");
  inject_uncorrected_ecc(state(), 0);
  unsigned int rows[4] = {};
  EXPECT_EQ(nvmlDeviceGetRemappedRows(device(0), &rows[0], &rows[1], &rows[2], &rows[3]),
            NVML_ERROR_NOT_SUPPORTED);
  unsigned int pages = 0;
  EXPECT_EQ(nvmlDeviceGetRetiredPages(device(0), NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
                                      &pages, nullptr),
            NVML_SUCCESS);
  EXPECT_EQ(pages, 1U);
}

}  // namespace
}  // namespace divvy::simgpu
