#include "gpuload/work_bins.h"

#include <gtest/gtest.h>

namespace divvy::gpuload {
namespace {

TEST(WorkBins, AnIterationCountsWhereItsTimeFell) {
  WorkBins bins(100);
  bins.add(50, 100);
  bins.add(80, 280);
  EXPECT_EQ(bins.iterations(), (std::vector<double>{1.1, 0.5, 0.4}));
}

TEST(WorkBins, AnIterationOfNoLengthCountsWhole) {
  WorkBins bins(100);
  bins.add(300, 300);
  EXPECT_EQ(bins.iterations(), (std::vector<double>{0, 0, 0, 1}));
}

TEST(WorkBins, LeavesOutWhatComesAfterTheLastBin) {
  WorkBins bins(10, 2);
  bins.add(5, ~uint64_t{0});
  bins.add(500, 510);
  EXPECT_EQ(bins.iterations().size(), 2U);
}

}  // namespace
}  // namespace divvy::gpuload
