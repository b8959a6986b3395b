// Least attained service first: the job that has had the least GPU time so far runs, because most
// jobs that have had little are about to finish. Knows no durations.
//
// Assumes: GPU time is seconds of progress multiplied by GPUs (the two-dimensional form of the
// literature). Algorithm: the first 60 GPU seconds are one queue and every doubling after that is
// the next; lower queues first, and inside a queue by arrival, so that jobs of the same service do
// not interrupt each other all the time. Of the ways to cut the queues (first 60 s or 1 h; doubling
// or tenfold) this one has the best average over the published traces.
#pragma once

#include "place/job_order.h"

namespace divvy::place {

class LasOrder : public JobOrder {
 public:
  static constexpr double kFirstQueueGpuSeconds = 60;

  std::string_view name() const override { return "las"; }
  JobRank rank(const OrderedJob& job, double now_s) override;
  double next_attained_s(const OrderedJob& job) const override;
};

}  // namespace divvy::place
