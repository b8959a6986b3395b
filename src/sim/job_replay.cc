#include "sim/job_replay.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/parse_error.h"

namespace divvy::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// The policy is not asked more often than this, whatever it wants: time has to move on.
constexpr double kLeastStepS = 1e-3;

// All jobs on the same GPUs have to do this much more together when one more joins them.
constexpr double kShareGainLeast = 1.25;
// So many waiting jobs of a size are looked at for each event, and four for each host.
constexpr std::size_t kGuestsLookedAt = 64;

class Replay {
 public:
  Replay(const JobTrace& trace, place::JobOrder& order, const ReplayOptions& options)
      : trace_(trace),
        order_(order),
        options_(options),
        charge_every_event_(options.restart_cost == RestartCost::kProtocol),
        shares_(options.share != ShareModel::kNone && !charge_every_event_ && order.preempts()),
        free_(options.cluster) {
    jobs_.reserve(trace.jobs.size());
    for (const auto& job : trace.jobs) {
      Job state;
      state.gpus = job.gpus;
      state.remaining_s = job.work_s;
      state.restart_s = restart_cost_s(job.gpus, job.model);
      jobs_.push_back(std::move(state));
    }
    result_.jobs.resize(trace.jobs.size());
  }

  ReplayResult run() {
    while (finished_ < jobs_.size()) {
      const double next_s = next_event();
      DIVVY_CHECK(next_s < kNever, "{} jobs wait and nothing happens", jobs_.size() - finished_);
      advance(next_s);
      submit();
      rank_anew();
      give_gpus();
      ++result_.events;
      report();
    }
    return std::move(result_);
  }

 private:
  struct Job {
    std::uint32_t gpus = 1;
    double remaining_s = 0;
    double attained_s = 0;
    double restart_s = 0;       // What a restart of it costs.
    double restart_left_s = 0;  // Of the restart that is going on.
    double end_s = kNever;      // Predicted, while it runs.
    double look_s = kNever;     // When the policy wants to look at it again.
    place::JobRank rank;
    GpuPlace place;
    double speed = 1;    // Below 1 beside others on the same GPUs.
    bool guest = false;  // Runs on GPUs that another one holds.
    bool running = false;
    bool chosen = false;
    bool done = false;
  };
  using Entry = std::pair<place::JobRank, std::uint32_t>;

  [[nodiscard]] place::OrderedJob view(std::uint32_t index) const {
    const Job& job = jobs_[index];
    place::OrderedJob seen;
    seen.index = index;
    seen.gpus = job.gpus;
    seen.submitted_s = trace_.jobs[index].submitted_s;
    seen.attained_s = job.attained_s;
    if (order_.knows_durations()) {
      seen.work_s = trace_.jobs[index].work_s;
      seen.remaining_s = job.remaining_s;
    }
    return seen;
  }

  // One queue for each number of GPUs: once a size does not fit, none of that size does, and the
  // walk through the order can leave out all of them at once.
  void enqueue(std::uint32_t index) {
    jobs_[index].rank = order_.rank(view(index), now_s_);
    queues_[jobs_[index].gpus].emplace(jobs_[index].rank, index);
  }
  void dequeue(std::uint32_t index) {
    queues_[jobs_[index].gpus].erase({jobs_[index].rank, index});
  }

  [[nodiscard]] double next_event() const {
    double next_s = kNever;
    if (submitted_ < jobs_.size()) next_s = trace_.jobs[submitted_].submitted_s;
    for (const std::uint32_t index : running_)
      next_s = std::min({next_s, jobs_[index].end_s, jobs_[index].look_s});
    return next_s;
  }

  void advance(double to_s) {
    const double elapsed_s = to_s - now_s_;
    now_s_ = to_s;
    std::vector<std::uint32_t> still;
    for (const std::uint32_t index : running_) {
      dequeue(index);
      if (jobs_[index].end_s <= now_s_) {
        finish(index);
        continue;
      }
      work(jobs_[index], elapsed_s);
      still.push_back(index);
    }
    running_ = std::move(still);
    // Only now, so that whoever is ranked knows of everybody who finished.
    for (const std::uint32_t index : running_) enqueue(index);
  }

  void work(Job& job, double elapsed_s) const {
    double lost_s = 0;
    if (charge_every_event_) {
      lost_s = std::min(elapsed_s, job.restart_s);
    } else {
      lost_s = std::min(elapsed_s, job.restart_left_s);
      job.restart_left_s -= lost_s;
    }
    const double done_s = std::min((elapsed_s - lost_s) * job.speed, job.remaining_s);
    job.remaining_s -= done_s;
    job.attained_s += done_s;
  }

  void finish(std::uint32_t index) {
    Job& job = jobs_[index];
    leave(job);
    job.done = true;
    job.attained_s = trace_.jobs[index].work_s;
    job.remaining_s = 0;
    result_.jobs[index].ended_s = now_s_;
    ++finished_;
    order_.finished(view(index), now_s_);
  }

  void submit() {
    while (submitted_ < jobs_.size() && trace_.jobs[submitted_].submitted_s <= now_s_) {
      const auto index = static_cast<std::uint32_t>(submitted_++);
      order_.submitted(view(index));
      enqueue(index);
    }
  }

  void rank_anew() {
    place::JobOrder::Review review = order_.review(now_s_);
    if (review.all) {
      review.some.clear();
      for (const auto& [gpus, queue] : queues_)
        for (const auto& [rank, index] : queue) review.some.push_back(index);
      // By number, so that a policy that learns while it ranks always learns in the same order.
      std::sort(review.some.begin(), review.some.end());
    }
    for (const std::uint32_t index : review.some) {
      if (index >= submitted_ || jobs_[index].done) continue;
      dequeue(index);
      enqueue(index);
    }
  }

  // Walks through the order and picks everybody who fits beside those picked before.
  // `fitted` says where each would go on an empty cluster, which proves that all fit together.
  std::vector<std::uint32_t> choose(FreeGpus free, std::vector<GpuPlace>& fitted) const {
    struct Cursor {
      std::set<Entry>::const_iterator at;
      std::set<Entry>::const_iterator end;
    };
    std::vector<Cursor> cursors;
    for (const auto& [gpus, queue] : queues_)
      if (!queue.empty()) cursors.push_back({queue.begin(), queue.end()});
    std::vector<std::uint32_t> chosen;
    while (!cursors.empty() && free.free() > 0) {
      const auto first =
          std::min_element(cursors.begin(), cursors.end(),
                           [](const Cursor& a, const Cursor& b) { return *a.at < *b.at; });
      const std::uint32_t index = first->at->second;
      // Whoever does not preempt looks only at what is free; the running ones stay anyway.
      const bool skip = !order_.preempts() && jobs_[index].running;
      auto place = skip ? std::nullopt : free.first_fit(jobs_[index].gpus);
      if (place) {
        free.take(*place);
        chosen.push_back(index);
        fitted.push_back(*std::move(place));
      } else if (!skip) {
        if (!order_.overtakes()) break;
        first->at = first->end;
      }
      if (first->at != first->end) ++first->at;
      if (first->at == first->end) cursors.erase(first);
    }
    return chosen;
  }

  void give_gpus() {
    std::vector<GpuPlace> fitted;
    if (!order_.preempts()) {
      const auto chosen = choose(free_, fitted);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        free_.take(fitted[i]);
        start(chosen[i], std::move(fitted[i]));
        running_.push_back(chosen[i]);
      }
    } else {
      const auto chosen = choose(FreeGpus(options_.cluster), fitted);
      for (const std::uint32_t index : chosen) jobs_[index].chosen = true;
      // A guest that is not chosen may find another host below; until then it keeps its place.
      for (const std::uint32_t index : running_)
        if (!jobs_[index].chosen && !jobs_[index].guest) leave(jobs_[index]);
      const auto before = std::move(running_);
      running_ = chosen;
      for (const std::uint32_t index : chosen) promote(jobs_[index]);
      settle(chosen, fitted);
      if (shares_) invite();
      for (const std::uint32_t index : before)
        if (jobs_[index].guest && !jobs_[index].chosen) leave(jobs_[index]);
      for (const std::uint32_t index : running_) jobs_[index].chosen = false;
    }
    predict();
  }

  // Guests hold no GPUs of their own.
  void leave(Job& job) {
    if (!job.guest) free_.give(job.place);
    job.guest = false;
    job.place.clear();
    job.running = false;
  }

  // The place is already taken.
  void start(std::uint32_t index, GpuPlace place) {
    Job& job = jobs_[index];
    JobOutcome& outcome = result_.jobs[index];
    if (outcome.starts++ == 0) outcome.started_s = now_s_;
    job.place = std::move(place);
    job.speed = 1;
    job.running = true;
    job.restart_left_s = job.restart_s;
  }

  // Puts the chosen jobs on GPUs and leaves as many as possible where they are.
  void settle(const std::vector<std::uint32_t>& chosen, const std::vector<GpuPlace>& fitted) {
    // Largest first, else in order; every job has its own position, so the result is unique.
    std::vector<std::size_t> positions(chosen.size());
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    std::sort(positions.begin(), positions.end(), [&](std::size_t a, std::size_t b) {
      const std::uint32_t more = jobs_[chosen[a]].gpus;
      const std::uint32_t less = jobs_[chosen[b]].gpus;
      return more != less ? more > less : a < b;
    });
    std::vector<std::uint32_t> by_size;
    by_size.reserve(chosen.size());
    for (const std::size_t position : positions) by_size.push_back(chosen[position]);
    if (add_new(by_size) || repack(by_size)) return;
    // Odd sizes can defeat both; the walk through the order has shown a way that works.
    free_ = FreeGpus(options_.cluster);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      free_.take(fitted[i]);
      if (!jobs_[chosen[i]].running || jobs_[chosen[i]].place != fitted[i])
        start(chosen[i], fitted[i]);
    }
  }

  // A guest that has come to the front holds GPUs of its own from now on: the same, if nobody else
  // holds them any more, and then it does not even notice.
  void promote(Job& job) {
    if (!job.guest) return;
    job.guest = false;
    job.running = free_.is_free(job.place);
    if (job.running)
      free_.take(job.place);
    else
      job.place.clear();
  }

  // Everybody who was not chosen, in order, may join the host with which all together gain most.
  void invite() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> hosts;  // By number of GPUs.
    for (const std::uint32_t index : running_)
      if (can_share(trace_.jobs[index])) hosts[jobs_[index].gpus].push_back(index);
    for (const auto& [gpus, indices] : hosts) {
      std::vector<ShareGroup> groups(indices.size());
      std::vector<std::vector<std::uint32_t>> members(indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i) groups[i].add(trace_.jobs[indices[i]]);
      std::size_t looked_at = 0;
      for (const auto& [rank, index] : queues_[gpus]) {
        if (jobs_[index].chosen) continue;
        if (++looked_at > kGuestsLookedAt + indices.size() * ShareGroup::kJobsMax) break;
        if (!can_share(trace_.jobs[index])) continue;
        std::size_t best = indices.size();
        double most = kShareGainLeast;
        for (std::size_t i = 0; i < indices.size(); ++i) {
          double gain = share_gain(groups[i], trace_.jobs[index]);
          // Staying where it is saves a restart.
          if (jobs_[index].running && jobs_[index].place == jobs_[indices[i]].place) gain *= 1.05;
          if (gain < most) continue;
          most = gain;
          best = i;
        }
        if (best == indices.size()) continue;
        groups[best].add(trace_.jobs[index]);
        members[best].push_back(index);
      }
      for (std::size_t i = 0; i < indices.size(); ++i) {
        jobs_[indices[i]].speed = groups[i].speed();
        for (const std::uint32_t guest : members[i]) seat(guest, indices[i], groups[i].speed());
      }
    }
  }

  void seat(std::uint32_t index, std::uint32_t host, double speed) {
    Job& job = jobs_[index];
    if (!job.running || job.place != jobs_[host].place) start(index, jobs_[host].place);
    job.guest = true;
    job.chosen = true;
    job.speed = speed;
    running_.push_back(index);
  }

  // Nobody moves. False, and nothing is changed, when some of the new ones do not fit like this.
  bool add_new(const std::vector<std::uint32_t>& by_size) {
    FreeGpus free = free_;
    std::vector<std::pair<std::uint32_t, GpuPlace>> fresh;
    for (const std::uint32_t index : by_size) {
      if (jobs_[index].running) continue;
      auto place = free.best_fit(jobs_[index].gpus);
      if (!place) return false;
      free.take(*place);
      fresh.emplace_back(index, *std::move(place));
    }
    free_ = std::move(free);
    for (auto& [index, place] : fresh) start(index, std::move(place));
    return true;
  }

  // Largest first; of one size those first that can stay where they are.
  bool repack(const std::vector<std::uint32_t>& by_size) {
    FreeGpus free(options_.cluster);
    std::vector<std::pair<std::uint32_t, GpuPlace>> moved;
    for (std::size_t i = 0; i < by_size.size();) {
      std::vector<std::uint32_t> homeless;
      const std::uint32_t size = jobs_[by_size[i]].gpus;
      for (; i < by_size.size() && jobs_[by_size[i]].gpus == size; ++i) {
        const Job& job = jobs_[by_size[i]];
        if (job.running && free.is_free(job.place))
          free.take(job.place);
        else
          homeless.push_back(by_size[i]);
      }
      for (const std::uint32_t index : homeless) {
        auto place = free.best_fit(size);
        if (!place) return false;
        free.take(*place);
        moved.emplace_back(index, *std::move(place));
      }
    }
    free_ = std::move(free);
    for (auto& [index, place] : moved) start(index, std::move(place));
    return true;
  }

  void predict() {
    for (const std::uint32_t index : running_) {
      Job& job = jobs_[index];
      const double restart_s = charge_every_event_ ? job.restart_s : job.restart_left_s;
      job.end_s = now_s_ + job.remaining_s / job.speed + (charge_every_event_ ? 0 : restart_s);
      const double look_s = order_.next_attained_s(view(index)) - job.attained_s;
      job.look_s = now_s_ + restart_s + std::max(look_s / job.speed, kLeastStepS);
    }
  }

  void report() const {
    if (options_.progress) options_.progress(finished_);
    if (!options_.observe) return;
    std::vector<RunningJob> who;
    who.reserve(running_.size());
    for (const std::uint32_t index : running_)
      who.push_back({index, jobs_[index].place, jobs_[index].guest});
    options_.observe(now_s_, who, submitted_ - finished_ - running_.size());
  }

  const JobTrace& trace_;
  place::JobOrder& order_;
  const ReplayOptions& options_;
  bool charge_every_event_;
  bool shares_;
  FreeGpus free_;
  double now_s_ = 0;
  std::size_t submitted_ = 0;
  std::size_t finished_ = 0;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> running_;
  std::map<std::uint32_t, std::set<Entry>> queues_;
  ReplayResult result_;
};

}  // namespace

std::string_view to_string(RestartCost cost) {
  return cost == RestartCost::kProtocol ? "protocol" : "real";
}

Result<RestartCost> parse_restart_cost(std::string_view text) {
  for (const RestartCost cost : {RestartCost::kProtocol, RestartCost::kReal})
    if (text == to_string(cost)) return cost;
  return err(ErrorCode::kInvalidArgument,
             "there is no restart cost {}; it is \"real\" (charged for real restarts) or "
             "\"protocol\" (charged at every event, as in the published simulator)",
             quote_typed(text));
}

ReplayResult replay_jobs(const JobTrace& trace, place::JobOrder& order,
                         const ReplayOptions& options) {
  return Replay(trace, order, options).run();
}

}  // namespace divvy::sim
