#include "place/job_order_divvy.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace divvy::place {
namespace {

constexpr int kYoung = 0;
constexpr int kLate = 1;
constexpr int kOthers = 2;

constexpr double kYoungPart = 0.03;
constexpr double kLateReserve = 0.7;
constexpr double kGiants = 0.005;
constexpr double kQuantile = 0.99;
// Of the expected remaining time of unfinished jobs, how much counts in the imagined FIFO queue.
// The expectation of a heavy tail is mostly tail that does not come; an estimate that is too low
// only makes jobs late somewhat earlier.
constexpr double kBelievedRemaining = 0.15;
// Everything is ranked anew when this much more has finished, or after this part of the late age.
constexpr double kReviewGrowth = 1.02;
constexpr double kReviewPart = 0.01;
constexpr double kReviewLeastS = 100;

}  // namespace

void DivvyOrder::submitted(const OrderedJob& job) {
  DIVVY_CHECK(job.index == jobs_.size(), "job {} submitted as number {}", job.index, jobs_.size());
  length_.submitted(job.index, job.gpus);
  Job known;
  known.gpus = job.gpus;
  known.submitted_s = job.submitted_s;
  jobs_.push_back(known);
}

void DivvyOrder::finished(const OrderedJob& job, double) {
  length_.finished(job.index, job.attained_s);
  Job& known = jobs_[job.index];
  known.attained_s = job.attained_s;
  known.remaining_s = 0;
  known.done = true;
  ++finished_;
  news_.push_back(job.index);
}

JobRank DivvyOrder::rank(const OrderedJob& job, double now_s) {
  Job& known = jobs_[job.index];
  known.attained_s = job.attained_s;
  if (length_.attained(job.index, job.attained_s)) news_.push_back(job.index);
  const JobLength::Outlook outlook = length_.outlook(job.index);
  known.remaining_s = outlook.remaining_s;
  const double key = job.gpus / outlook.finish_rate;
  if (length_.level_begin_s(job.index) * job.gpus < young_gpu_s_) return {kYoung, key};
  if (!known.giant && now_s - job.submitted_s >= late_age_s_) return {kLate, job.submitted_s};
  return {kOthers, key};
}

double DivvyOrder::next_attained_s(const OrderedJob& job) const {
  return length_.level_end_s(job.index);
}

JobOrder::Review DivvyOrder::review(double now_s) {
  Review review;
  if (finished_ > finished_at_review_ * kReviewGrowth ||
      now_s > reviewed_s_ + late_age_s_ * kReviewPart + kReviewLeastS) {
    finished_at_review_ = finished_;
    reviewed_s_ = now_s;
    news_.clear();
    length_.refresh();
    update_young();
    update_late();
    update_giants();
    review.all = true;
    return review;
  }
  for (const std::uint32_t job : news_) length_.append_neighbours(job, review.some);
  news_.clear();
  std::sort(review.some.begin(), review.some.end());
  review.some.erase(std::unique(review.some.begin(), review.some.end()), review.some.end());
  return review;
}

// Where to cut the GPU time of every job so that the parts below the cut are kYoungPart of all.
void DivvyOrder::update_young() {
  std::vector<double> services;
  services.reserve(jobs_.size());
  double all = 0;
  for (const auto& job : jobs_) {
    services.push_back(job.attained_s * job.gpus);
    all += services.back();
  }
  std::sort(services.begin(), services.end());
  double below = 0;
  young_gpu_s_ = 0;
  for (std::size_t i = 0; i < services.size(); ++i) {
    const auto rest = static_cast<double>(services.size() - i);
    if (below + services[i] * rest > kYoungPart * all) {
      young_gpu_s_ = (kYoungPart * all - below) / rest;
      return;
    }
    below += services[i];
    young_gpu_s_ = services[i];
  }
}

// What age 99 of 100 jobs would have reached in a FIFO queue over a cluster that never idles. The
// bound never falls: what once was in time stays in time.
void DivvyOrder::update_late() {
  std::vector<double> ages;
  ages.reserve(jobs_.size());
  double end_s = 0;
  for (const auto& job : jobs_) {
    const double work_s = job.attained_s + kBelievedRemaining * job.remaining_s;
    end_s = std::max(end_s, job.submitted_s) + work_s * job.gpus / cluster_gpus_;
    ages.push_back(std::max(end_s - job.submitted_s, work_s));
  }
  if (ages.empty()) return;
  const auto at = static_cast<std::size_t>(kQuantile * static_cast<double>(ages.size()));
  std::nth_element(ages.begin(), ages.begin() + static_cast<std::ptrdiff_t>(at), ages.end());
  late_age_s_ = std::max(late_age_s_, kLateReserve * ages[at]);
}

void DivvyOrder::update_giants() {
  std::vector<std::pair<double, std::uint32_t>> services;
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    job.giant = false;
    if (!job.done) services.emplace_back(-(job.attained_s + job.remaining_s) * job.gpus, i);
  }
  const auto giants = std::min(
      services.size(), static_cast<std::size_t>(kGiants * static_cast<double>(jobs_.size())));
  std::partial_sort(services.begin(), services.begin() + static_cast<std::ptrdiff_t>(giants),
                    services.end());
  for (std::size_t i = 0; i < giants; ++i) jobs_[services[i].second].giant = true;
}

}  // namespace divvy::place
