// Which job comes next: the policies that order waiting and running jobs when there are not enough
// GPUs for all. Pure and deterministic: a policy sees only what it is told, has no clock and no
// randomness, and the same calls give the same answers. One object belongs to one queue and is
// called from one thread.
//
// The caller (the simulator, later the queue) numbers jobs densely in the order of submission and
// keeps them sorted by `rank`. At every event, in this order, it tells what finished, what was
// submitted, ranks the running jobs anew (their attained service has changed), asks `review` which
// others to rank anew, and then gives the GPUs to the jobs from the front.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::place {

struct OrderedJob {
  std::uint32_t index = 0;  // Dense, in the order of submission.
  std::uint32_t gpus = 1;
  double submitted_s = 0;
  double attained_s = 0;  // Time of progress on its GPUs so far; restarts do not count.
  // The whole and the remaining time on its GPUs. Only for policies that know durations; for the
  // others both stay zero, so that none of them can look by mistake.
  double work_s = 0;
  double remaining_s = 0;
};

// Smaller comes first; equal ranks go by index.
struct JobRank {
  int tier = 0;
  double key = 0;
  friend auto operator<=>(const JobRank&, const JobRank&) = default;
};

class JobOrder {
 public:
  virtual ~JobOrder() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool knows_durations() const { return false; }
  // May take GPUs from a running job.
  [[nodiscard]] virtual bool preempts() const { return true; }
  // A job that does not fit lets those behind it pass.
  [[nodiscard]] virtual bool overtakes() const { return true; }

  virtual void submitted(const OrderedJob& /*job*/) {}
  // `job.attained_s` is the time that it worked in all.
  virtual void finished(const OrderedJob& /*job*/, double /*now_s*/) {}

  [[nodiscard]] virtual JobRank rank(const OrderedJob& job, double now_s) = 0;
  // The attained service at which the rank of a running job changes by itself; the caller comes
  // back at that moment.
  [[nodiscard]] virtual double next_attained_s(const OrderedJob& /*job*/) const {
    return std::numeric_limits<double>::infinity();
  }

  struct Review {
    bool all = false;                 // Rank every unfinished job anew.
    std::vector<std::uint32_t> some;  // Otherwise these; finished ones among them are ignored.
  };
  [[nodiscard]] virtual Review review(double /*now_s*/) { return {}; }
};

// Every policy's name and one line about it, for help texts.
struct JobOrderInfo {
  std::string_view name;
  std::string_view about;
};
[[nodiscard]] const std::vector<JobOrderInfo>& job_orders();

// `cluster_gpus`: how many GPUs the jobs share.
[[nodiscard]] Result<std::unique_ptr<JobOrder>> make_job_order(std::string_view name,
                                                               std::uint32_t cluster_gpus);

}  // namespace divvy::place
