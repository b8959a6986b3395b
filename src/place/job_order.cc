#include "place/job_order.h"

#include <span>

#include "base/parse_error.h"
#include "base/text.h"
#include "place/job_order_divvy.h"
#include "place/job_order_las.h"

namespace divvy::place {
namespace {

// In order of arrival, nobody passes, nobody is interrupted: what most queues do.
class Fifo : public JobOrder {
 public:
  std::string_view name() const override { return "fifo"; }
  bool preempts() const override { return false; }
  bool overtakes() const override { return false; }
  JobRank rank(const OrderedJob& job, double) override { return {0, job.submitted_s}; }
};

// In order of arrival, but gaps are filled by later jobs, which give way as soon as an earlier one
// can use their GPUs: no order by arrival leaves fewer GPUs idle.
class FifoBackfill : public JobOrder {
 public:
  std::string_view name() const override { return "fifo-backfill"; }
  JobRank rank(const OrderedJob& job, double) override { return {0, job.submitted_s}; }
};

// Shortest job first, by its whole duration; what runs is not interrupted.
class Sjf : public JobOrder {
 public:
  std::string_view name() const override { return "sjf"; }
  bool knows_durations() const override { return true; }
  bool preempts() const override { return false; }
  JobRank rank(const OrderedJob& job, double) override { return {0, job.work_s}; }
};

// Shortest remaining time first.
class Srtf : public JobOrder {
 public:
  std::string_view name() const override { return "srtf"; }
  bool knows_durations() const override { return true; }
  JobRank rank(const OrderedJob& job, double) override { return {0, job.remaining_s}; }
};

// Shortest remaining service first: time multiplied by GPUs.
class Srsf : public JobOrder {
 public:
  std::string_view name() const override { return "srsf"; }
  bool knows_durations() const override { return true; }
  JobRank rank(const OrderedJob& job, double) override { return {0, job.remaining_s * job.gpus}; }
};

}  // namespace

const std::vector<JobOrderInfo>& job_orders() {
  static const std::vector<JobOrderInfo> kOrders{
      {"fifo", "in order of arrival; nobody passes, nobody is interrupted"},
      {"fifo-backfill", "in order of arrival; later jobs fill gaps and give way"},
      {"sjf", "shortest job first, not interrupted (knows durations)"},
      {"srtf", "shortest remaining time first (knows durations)"},
      {"srsf", "shortest remaining GPU time first (knows durations)"},
      {"las", "least attained GPU time first"},
      {"divvy", "what finished jobs tell about the others, with a bound on waiting"},
  };
  return kOrders;
}

Result<std::unique_ptr<JobOrder>> make_job_order(std::string_view name,
                                                 std::uint32_t cluster_gpus) {
  if (name == "fifo") return std::make_unique<Fifo>();
  if (name == "fifo-backfill") return std::make_unique<FifoBackfill>();
  if (name == "sjf") return std::make_unique<Sjf>();
  if (name == "srtf") return std::make_unique<Srtf>();
  if (name == "srsf") return std::make_unique<Srsf>();
  if (name == "las") return std::make_unique<LasOrder>();
  if (name == "divvy") return std::make_unique<DivvyOrder>(cluster_gpus);
  std::vector<std::string_view> names;
  std::string known;
  for (const auto& order : job_orders()) {
    names.push_back(order.name);
    known += known.empty() ? "" : ", ";
    known += order.name;
  }
  const auto meant = did_you_mean(name, std::span<const std::string_view>(names));
  return err(ErrorCode::kInvalidArgument, "there is no job policy {}{}; the policies are {}",
             quote_typed(name), meant ? fmt::format(" (did you mean \"{}\"?)", *meant) : "", known);
}

}  // namespace divvy::place
