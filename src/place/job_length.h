// What finished and half-finished jobs tell about how long an unfinished one still takes. Knows no
// durations in advance: it learns from the service that jobs had when they finished, and from that
// which they had and were still not finished. Used by the policy `divvy` (job_order_divvy.h), from
// its thread.
//
// Service is cut into levels: the first ten minutes, then one level for every doubling. For each
// level the chance that a job which reaches it finishes inside it is estimated from three sources,
// each of which fills the gaps of the one before:
//   1. the neighbours: jobs of the same number of GPUs submitted shortly before and after, the
//      nearest counting most. Users submit the same work several times in a row.
//   2. all jobs with the same number of GPUs,
//   3. all jobs, drawn towards one chance for all levels, which alone would mean "least attained
//      service first".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace divvy::place {

class JobLength {
 public:
  static constexpr int kLevels = 48;

  // Jobs are numbered densely in the order of submission.
  void submitted(std::uint32_t job, std::uint32_t gpus);
  // The service only grows. Returns true when the job reached a new level, which its neighbours may
  // learn from.
  bool attained(std::uint32_t job, double seconds);
  void finished(std::uint32_t job, double seconds);
  // Makes what was learnt about all jobs count. Not done at every change, so that ranks do not move
  // all the time.
  void refresh();

  struct Outlook {
    // The best chance to finish per second spent on it, over all ways to go on (Gittins' index).
    double finish_rate = 0;
    double remaining_s = 0;  // Expected.
  };
  [[nodiscard]] Outlook outlook(std::uint32_t job) const;

  // The unfinished neighbours of a job, and itself.
  void append_neighbours(std::uint32_t job, std::vector<std::uint32_t>& out) const;

  // The service at which the level ends.
  [[nodiscard]] double level_begin_s(std::uint32_t job) const;
  [[nodiscard]] double level_end_s(std::uint32_t job) const;

 private:
  using Chances = std::array<double, kLevels>;

  // Jobs that came to the end of a level or finished inside it, and those that finished.
  struct Counts {
    std::array<double, kLevels> passed{};
    std::array<double, kLevels> finished{};
    Chances chance{};
  };
  struct Job {
    std::uint32_t gpus = 1;
    std::uint32_t place = 0;  // Among the jobs with the same number of GPUs.
    int level = 0;
    bool done = false;
  };
  struct Kind {
    std::vector<std::uint32_t> jobs;
    Counts counts;
  };

  [[nodiscard]] static int level_of(double seconds);
  void pass_levels(std::uint32_t job, int level);

  std::vector<Job> jobs_;
  std::map<std::uint32_t, Kind> kinds_;  // By number of GPUs.
  Counts all_;
  int top_ = 1;  // The highest level that anybody reached.
};

}  // namespace divvy::place
