#include "sim/job_sharing.h"

#include <algorithm>

#include "base/parse_error.h"

namespace divvy::sim {
namespace {

constexpr double kLossPerGuest = 0.05;

}  // namespace

std::string_view to_string(ShareModel model) {
  return model == ShareModel::kNone ? "none" : "resources";
}

Result<ShareModel> parse_share_model(std::string_view text) {
  for (const ShareModel model : {ShareModel::kNone, ShareModel::kResources})
    if (text == to_string(model)) return model;
  return err(ErrorCode::kInvalidArgument,
             "there is no share model {}; it is \"none\" (every job has its GPUs alone) or "
             "\"resources\" (jobs share GPUs as the trace's resource_time columns allow)",
             quote_typed(text));
}

void ShareGroup::add(const TraceJob& job) {
  for (std::size_t i = 0; i < busy_.size(); ++i)
    busy_[i] += std::min(1.0, job.resource_ms[i] / job.iteration_ms);
  ++jobs_;
}

double ShareGroup::speed() const {
  if (jobs_ <= 1) return 1;
  const double busiest = *std::max_element(busy_.begin(), busy_.end());
  const double loss = kLossPerGuest * static_cast<double>(jobs_ - 1);
  return (1 - loss) / std::max(1.0, busiest);
}

bool can_share(const TraceJob& job) {
  return std::any_of(job.resource_ms.begin(), job.resource_ms.end(),
                     [](double busy_ms) { return busy_ms > 0; });
}

double share_gain(ShareGroup group, const TraceJob& job) {
  if (group.jobs() >= ShareGroup::kJobsMax) return 0;
  const double before = group.throughput();
  group.add(job);
  return group.throughput() / before;
}

}  // namespace divvy::sim
