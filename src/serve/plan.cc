#include "serve/plan.h"

#include <algorithm>
#include <tuple>

#include "base/counted.h"

namespace divvy::serve {
namespace {

using model::JobId;
using model::Seconds;

// Replicas more than wanted, while one version takes over from another.
constexpr std::uint32_t kSurge = 1;
// Of a version on its way, in a row; then it is taken back.
constexpr std::uint32_t kMostFailures = 3;
// A replica that worked for so long shows that its version is well.
constexpr Seconds kWell{60};
constexpr Seconds kShortestPause{1};
constexpr Seconds kLongestPause{5 * 60};

class Planner {
 public:
  Planner(Service& service, const std::vector<Replica>& replicas,
          const std::optional<Traffic>& traffic, Memory& memory, WallTime now)
      : service_(service), traffic_(traffic), memory_(memory), now_(now) {
    for (const Replica& replica : replicas) {
      if (replica.phase != Phase::kEnded) {
        live_[replica.job] = &replica;
      } else if (!service.replicas.contains(replica.job)) {
        // It has ended before anybody looked.
        service.replicas[replica.job] = {replica.version, false, now, {}};
      }
    }
  }

  Plan make() {
    heed_clock();
    meet();
    if (service_.deleting) {
      retire_all();
    } else {
      judge();
      scale();
      set_targets();
      retire_excess();
      start();
      take_over();
    }
    stop_retiring();
    plan_.gone = service_.deleting && service_.replicas.empty();
    return std::move(plan_);
  }

 private:
  // Looks again at this time, where nothing happens before.
  void look(WallTime at) {
    if (at <= now_) return;
    plan_.look_at = plan_.look_at ? std::min(*plan_.look_at, at) : at;
  }
  // Whether the time has come; otherwise it is looked at again then.
  bool is_over(WallTime since, Seconds patience) {
    if (now_ - since >= patience) return true;
    look(since + patience);
    return false;
  }

  // Where the clock was set back, what is said to be yet to come counts from now on. Otherwise a
  // pause of a second would last for as long as the clock had been wrong.
  void heed_clock() {
    const auto heed = [this](std::optional<WallTime>& time) {
      if (time) time = std::min(*time, now_);
    };
    for (auto& [job, known] : service_.replicas) {
      known.turned = std::min(known.turned, now_);
      heed(known.retiring);
    }
    for (Version& version : service_.versions) heed(version.failed_at);
    heed(memory_.calm_since);
    heed(memory_.last_request);
    heed(memory_.measurement.since);
  }

  void fail(VersionNumber number) {
    Version* const version = service_.find(number);
    if (version == nullptr) return;
    ++version->failures;
    version->failed_at = now_;
  }

  // Who ended, who is new, who is ready.
  void meet() {
    for (auto it = service_.replicas.begin(); it != service_.replicas.end();) {
      if (live_.contains(it->first)) {
        ++it;
        continue;
      }
      if (!it->second.retiring && !service_.deleting) {
        fail(it->second.version);
        const Version* version = service_.find(it->second.version);
        if (version != nullptr && version->failures <= kMostFailures) {
          service_.tell(now_, fmt::format("a replica of version {} (job {}) ended by itself",
                                          it->second.version, it->first));
        }
      }
      it = service_.replicas.erase(it);
    }
    for (const auto& [job, replica] : live_) {
      const auto [it, is_new] = service_.replicas.try_emplace(
          job, Known{.version = replica->version, .ready = false, .turned = now_, .retiring = {}});
      Known& known = it->second;
      const bool ready = replica->phase == Phase::kRunning && replica->healthy && !known.retiring;
      if (known.ready != ready) {
        known.ready = ready;
        known.turned = now_;
      }
      Version* const version = service_.find(known.version);
      if (ready && version != nullptr && version->failures > 0 && is_over(known.turned, kWell)) {
        version->failures = 0;
        version->failed_at.reset();
      }
    }
  }

  void take_back(const std::string& why) {
    Version* const version = service_.find(service_.candidate->version);
    version->rejected = why;
    service_.tell(now_, fmt::format("version {} is taken back, and version {} goes on: {}",
                                    version->number, service_.stable, why));
    service_.candidate.reset();
  }

  [[nodiscard]] bool is_candidate(VersionNumber version) const {
    return service_.candidate && service_.candidate->version == version;
  }

  void judge() {
    for (auto& [job, known] : service_.replicas) {
      const Replica& replica = *live_.at(job);
      if (known.ready || known.retiring || replica.phase != Phase::kRunning) continue;
      const Seconds patience = service_.settings.ready_within;
      // When a job began is not corrected where the clock was set back.
      const bool began = replica.since <= now_;
      if (!is_over(began ? std::max(known.turned, replica.since) : known.turned, patience)) {
        continue;
      }
      known.retiring = now_;
      fail(known.version);
      const std::string why = fmt::format("job {} was not ready within {} s: {} did not answer",
                                          job, patience.count(), service_.settings.ready);
      if (is_candidate(known.version)) {
        take_back(why);
      } else {
        service_.tell(now_,
                      fmt::format("a replica of version {} is replaced: {}", known.version, why));
      }
    }
    if (!service_.candidate) return;
    const Version& candidate = *service_.find(service_.candidate->version);
    if (candidate.failures >= kMostFailures) {
      take_back(
          fmt::format("its replicas ended {} times by themselves; divvy logs shows their last "
                      "words",
                      candidate.failures));
    }
  }

  [[nodiscard]] std::uint32_t wanted_by_requests() const {
    const std::uint32_t each = service_.settings.scale.in_flight;
    const std::uint32_t all = traffic_->in_flight;
    if (each == 0) return all > 0 ? 1 : 0;
    return all / each + (all % each == 0 ? 0 : 1);
  }

  // One more or fewer: latency says that they are too few, not how many.
  [[nodiscard]] std::uint32_t wanted_by_latency(std::uint64_t mean_ms) const {
    const std::uint32_t target = service_.settings.scale.latency_ms;
    if (mean_ms > target) return service_.desired + 1;
    return mean_ms > target / 2 ? service_.desired : service_.desired - 1;
  }
  // In proportion, where it is off by more than a tenth.
  [[nodiscard]] std::uint32_t wanted_by_gpu_use(std::uint64_t mean) const {
    const std::uint64_t target = service_.settings.scale.gpu_use;
    if (mean * 10 >= target * 9 && mean * 10 <= target * 11) return service_.desired;
    const std::uint64_t want = (service_.desired * mean + target - 1) / target;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(want, Scale::kMost));
  }
  void judge_measurement(const Measurement& whole) {
    const Scale& scale = service_.settings.scale;
    std::uint32_t want = 0;
    std::string text;
    if (scale.latency_ms > 0 && whole.latency_ms.count > 0) {
      want = std::max(want, wanted_by_latency(whole.latency_ms.value()));
      text += fmt::format(", answers after {} ms", whole.latency_ms.value());
    }
    if (scale.gpu_use > 0 && whole.gpu_use.count == 0) {
      want = std::max(want, service_.desired);
    } else if (scale.gpu_use > 0) {
      want = std::max(want, wanted_by_gpu_use(whole.gpu_use.value()));
      text += fmt::format(", {} % of their share of the GPU used", whole.gpu_use.value());
    }
    memory_.measured = want;
    memory_.measured_text = std::move(text);
  }
  // What was measured, while as many replicas as are wanted were at work. `asked`: there were
  // requests since the last round.
  std::uint32_t wanted_by_measurement(bool asked) {
    const Scale& scale = service_.settings.scale;
    if (scale.latency_ms == 0 && scale.gpu_use == 0) return 0;
    if (service_.desired == 0) return 0;
    Measurement& measurement = memory_.measurement;
    if (ready() < service_.desired) {
      forget_measurement();
      return service_.desired;
    }
    if (!measurement.since) measurement.since = now_;
    if (asked && traffic_->latency_ms) measurement.latency_ms.add(*traffic_->latency_ms);
    if (traffic_->gpu_use) measurement.gpu_use.add(*traffic_->gpu_use);
    if (now_ - *measurement.since >= Measurement::kWhole) {
      judge_measurement(measurement);
      measurement = {.since = now_};
    }
    if (service_.desired > scale.least) look(*measurement.since + Measurement::kWhole);
    return memory_.measured.value_or(service_.desired);
  }
  void forget_measurement() {
    memory_.measurement = {};
    memory_.measured.reset();
    memory_.measured_text.clear();
  }

  // The replicas that are wanted, from the traffic.
  void scale() {
    const Scale& scale = service_.settings.scale;
    service_.desired = std::clamp(service_.desired, scale.least, scale.most);
    if (scale.least == scale.most || !traffic_) return;
    const bool asked = traffic_->requests != memory_.requests;
    if (asked || traffic_->in_flight > 0 || !memory_.last_request) {
      memory_.last_request = now_;
      memory_.requests = traffic_->requests;
    }
    std::uint32_t want = std::max(wanted_by_requests(), wanted_by_measurement(asked));
    if (want == 0 && service_.desired > 0 && !is_over(*memory_.last_request, scale.idle)) want = 1;
    want = std::clamp(want, scale.least, scale.most);
    if (want > service_.desired) {
      set_desired(want);
    } else if (want == 0 && service_.desired > 0) {
      set_desired(0);
    } else if (want < service_.desired) {
      if (!memory_.calm_since) {
        memory_.calm_since = now_;
        memory_.calm_peak = 0;
      }
      memory_.calm_peak = std::max(memory_.calm_peak, want);
      if (is_over(*memory_.calm_since, scale.calm)) set_desired(memory_.calm_peak);
    } else {
      memory_.calm_since.reset();
    }
  }
  void set_desired(std::uint32_t replicas) {
    service_.tell(now_,
                  fmt::format("{} instead of {}, with {} in flight{}", counted(replicas, "replica"),
                              service_.desired, counted(traffic_->in_flight, "request"),
                              memory_.measured_text));
    service_.desired = replicas;
    memory_.calm_since.reset();
    forget_measurement();
  }

  // How many of each version there are to be.
  void set_targets() {
    replicas_ = service_.desired;
    if (!service_.candidate) {
      targets_[service_.stable] = replicas_;
      most_ = replicas_ + kSurge;
      return;
    }
    // It has to show that it works, also where nobody asks for anything.
    replicas_ = std::max<std::uint32_t>(replicas_, 1);
    const std::uint32_t weight = service_.candidate->weight;
    std::uint32_t some = replicas_;
    std::uint32_t others = 0;
    if (weight < 100) {
      some = std::max<std::uint32_t>(1, (replicas_ * weight + 50) / 100);
      some = std::min(some, std::max<std::uint32_t>(1, replicas_ - 1));
      others = std::max<std::uint32_t>(1, replicas_ - some);
    }
    targets_[service_.candidate->version] = some;
    targets_[service_.stable] = others;
    most_ = std::max(replicas_ + kSurge, some + others);
  }

  [[nodiscard]] std::uint32_t serving(VersionNumber version) const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(service_.replicas, [version](const auto& entry) {
          return entry.second.version == version && !entry.second.retiring;
        }));
  }
  [[nodiscard]] std::uint32_t ready() const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        service_.replicas, [](const auto& entry) { return entry.second.ready; }));
  }

  void retire(Known& known) {
    known.retiring = now_;
    known.ready = false;
    known.turned = now_;
  }
  void retire_all() {
    for (auto& [job, known] : service_.replicas) {
      if (!known.retiring) retire(known);
    }
  }

  // Those that do no work first; of the others none whose place nobody has taken.
  void retire_excess() {
    std::map<VersionNumber, std::uint32_t> excess;
    for (const auto& [job, known] : service_.replicas) {
      const std::uint32_t has = serving(known.version);
      const std::uint32_t target = targets_.contains(known.version) ? targets_[known.version] : 0;
      if (has > target) excess[known.version] = has - target;
    }
    if (excess.empty()) return;
    std::vector<JobId> order;
    for (const auto& [job, known] : service_.replicas) {
      if (!known.retiring) order.push_back(job);
    }
    std::ranges::sort(order, {}, [this](JobId job) {
      const Known& known = service_.replicas.at(job);
      const Replica& replica = *live_.at(job);
      return std::tuple(known.ready, replica.phase == Phase::kRunning, replica.in_flight,
                        ~job.value());
    });
    std::uint32_t ready_now = ready();
    for (const JobId job : order) {
      Known& known = service_.replicas.at(job);
      std::uint32_t& left = excess[known.version];
      if (left == 0 || (known.ready && ready_now <= replicas_)) continue;
      if (known.ready) --ready_now;
      --left;
      retire(known);
    }
  }

  void start() {
    auto all = static_cast<std::uint32_t>(service_.replicas.size());
    for (const auto& [number, target] : targets_) {
      const Version& version = *service_.find(number);
      if (version.failures > 0 && version.failed_at &&
          !is_over(*version.failed_at, back_off(version.failures))) {
        continue;
      }
      // One at a time of a version that fails.
      const std::uint32_t at_once = version.failures > 0 ? 1 : target;
      std::uint32_t has = serving(number);
      for (std::uint32_t i = 0; i < at_once && has < target && all < most_; ++i) {
        plan_.start.push_back(number);
        ++has;
        ++all;
      }
    }
  }

  void take_over() {
    if (!service_.candidate || service_.candidate->weight < 100) return;
    const VersionNumber number = service_.candidate->version;
    const auto ready = std::ranges::count_if(service_.replicas, [number](const auto& entry) {
      return entry.second.version == number && entry.second.ready;
    });
    if (static_cast<std::uint32_t>(ready) < targets_[number] || serving(service_.stable) > 0)
      return;
    service_.tell(now_, fmt::format("version {} replaces version {}", number, service_.stable));
    service_.stable = number;
    service_.candidate.reset();
    look(now_ + Duration(1));
  }

  void stop_retiring() {
    for (const auto& [job, known] : service_.replicas) {
      if (!known.retiring) continue;
      const Replica& replica = *live_.at(job);
      if (replica.phase == Phase::kStopping) continue;
      const bool idle = !replica.in_rotation && replica.in_flight == 0;
      if (replica.phase == Phase::kWaiting || idle ||
          is_over(*known.retiring, service_.settings.drain)) {
        plan_.stop.push_back(job);
      }
    }
  }

  Service& service_;
  const std::optional<Traffic>& traffic_;
  Memory& memory_;
  WallTime now_;
  std::map<JobId, const Replica*> live_;
  std::uint32_t replicas_ = 0;  // that are wanted
  std::uint32_t most_ = 0;      // that may be there when one is started
  std::map<VersionNumber, std::uint32_t> targets_;
  Plan plan_;
};

}  // namespace

Seconds back_off(std::uint32_t failures) {
  if (failures == 0) return Seconds(0);
  const std::uint32_t doublings = std::min<std::uint32_t>(failures - 1, 20);
  return std::min(kLongestPause, kShortestPause * (1U << doublings));
}

Plan plan(Service& service, const std::vector<Replica>& replicas,
          const std::optional<Traffic>& traffic, Memory& memory, WallTime now) {
  return Planner(service, replicas, traffic, memory, now).make();
}

std::map<JobId, std::uint32_t> weights(const Service& service) {
  constexpr std::uint32_t kWhole = 256;
  std::map<VersionNumber, std::uint32_t> ready;
  for (const auto& [job, known] : service.replicas) {
    if (known.ready && !known.retiring) ++ready[known.version];
  }
  // Of each version, for one of its replicas.
  std::map<VersionNumber, std::uint32_t> parts;
  const VersionNumber candidate = service.candidate ? service.candidate->version : 0;
  const bool has_stable = ready.contains(service.stable);
  const bool has_candidate = service.candidate && ready.contains(candidate);
  if (has_stable && has_candidate && service.candidate->weight < 100) {
    const std::uint32_t some = service.candidate->weight * ready[service.stable];
    const std::uint32_t others = (100 - service.candidate->weight) * ready[candidate];
    const std::uint32_t most = std::max(some, others);
    const auto of = [&](std::uint32_t part) {
      return std::max<std::uint32_t>(1, (kWhole * part + most / 2) / most);
    };
    parts = {{service.stable, of(others)}, {candidate, of(some)}};
  } else if (has_stable || has_candidate) {
    parts = {{service.stable, kWhole}, {candidate, kWhole}};
  } else {
    // A version that was taken back is better than nothing.
    for (const auto& [version, count] : ready) parts[version] = kWhole;
  }
  std::map<JobId, std::uint32_t> result;
  for (const auto& [job, known] : service.replicas) {
    if (known.ready && !known.retiring && parts.contains(known.version)) {
      result[job] = parts[known.version];
    }
  }
  return result;
}

}  // namespace divvy::serve
