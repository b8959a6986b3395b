// Divvy's own order of jobs. Knows no durations.
//
// Assumes: most jobs are short and a few take most of the GPU time; jobs submitted one after the
// other resemble each other; a few seconds of restart are little against hours of work.
//
// Algorithm, three tiers:
//   0. Young jobs: those whose GPU time so far is so small that all jobs together, cut off there,
//      make up only 3 % of all GPU time given out. They cost the others next to nothing, and most
//      jobs finish as young ones.
//   1. Late jobs: those that are older than what a FIFO queue would have given to 99 of 100 jobs
//      (estimated from the GPU time of all jobs so far, times 0.7 as a reserve). By arrival. One
//      job in two hundred is not protected like this: those with the most GPU time so far, because
//      a handful of giants can hold back everybody else.
//   2. All others.
// Inside tiers 0 and 2: the highest expected chance to finish per GPU second (job_length.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "place/job_length.h"
#include "place/job_order.h"

namespace divvy::place {

class DivvyOrder : public JobOrder {
 public:
  explicit DivvyOrder(std::uint32_t cluster_gpus) : cluster_gpus_(cluster_gpus) {}

  std::string_view name() const override { return "divvy"; }
  void submitted(const OrderedJob& job) override;
  void finished(const OrderedJob& job, double now_s) override;
  JobRank rank(const OrderedJob& job, double now_s) override;
  double next_attained_s(const OrderedJob& job) const override;
  Review review(double now_s) override;

 private:
  struct Job {
    std::uint32_t gpus = 1;
    double submitted_s = 0;
    double attained_s = 0;
    double remaining_s = 0;  // Expected, when it was last ranked.
    bool done = false;
    bool giant = false;
  };

  void update_young();
  void update_late();
  void update_giants();

  double cluster_gpus_;
  JobLength length_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> news_;  // Jobs from which their neighbours can learn.
  double finished_ = 0;
  double finished_at_review_ = 0;
  double reviewed_s_ = -std::numeric_limits<double>::infinity();
  double young_gpu_s_ = 0;  // Less GPU time than this is young.
  double late_age_s_ = 0;   // This age is late.
};

}  // namespace divvy::place
