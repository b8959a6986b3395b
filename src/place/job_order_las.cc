#include "place/job_order_las.h"

#include <cmath>

namespace divvy::place {
namespace {

// A job that is this close to the end of its queue is in the next one: the caller computes in
// floating point and comes back a hair too early as often as too late.
constexpr double kSlackS = 1e-3;

int queue_of(const OrderedJob& job) {
  const double service = (job.attained_s + kSlackS) * job.gpus;
  if (service < LasOrder::kFirstQueueGpuSeconds) return 0;
  return 1 + std::ilogb(service / LasOrder::kFirstQueueGpuSeconds);
}

}  // namespace

JobRank LasOrder::rank(const OrderedJob& job, double) {
  return {0, static_cast<double>(queue_of(job))};
}

double LasOrder::next_attained_s(const OrderedJob& job) const {
  return std::ldexp(kFirstQueueGpuSeconds, queue_of(job)) / job.gpus;
}

}  // namespace divvy::place
