// The bound of the schedule, for random histories: tenants of all kinds arrive, pause, return,
// hang, die and are changed, and in every window nobody that has work is further behind its share
// than one request, one batch, one hand-over and the bursts of the latency class. Among tenants of
// the batch class that is their part of all that was served; beside the latency class, which may
// use its share when it likes, it is their share of the GPU. What is judged is what the model of
// the GPU ran, not what the schedule believes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/sanitized.h"
#include "share/gpu_model.h"

namespace divvy::share {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

constexpr std::uint64_t kLongestPassedOver = 500 * kMs;
constexpr double kWorstPrediction = 0.4;

const Program kPrograms[] = {
    {.kernel_ns = 10'000, .cpu_ns = 4'000},
    {.kernel_ns = 50'000, .cpu_ns = 4'000},
    {.kernel_ns = 400'000, .cpu_ns = 5'000, .unknown = 300},
    {.kernel_ns = 60'000, .cpu_ns = 5'000, .kernels_per_sync = 400},
    {.kernel_ns = 60'000, .cpu_ns = 5'000, .kernels_per_sync = 100, .pause_ns = 200'000},
    {.kernel_ns = 50'000, .cpu_ns = 4'000, .predicted = kWorstPrediction},
    {.kernel_ns = 50'000, .cpu_ns = 4'000, .predicted = 3},
};

// The service that a tenant with work was entitled to and did not have.
struct Owed {
  double now_ns = 0;
  double least_ns = 0;  // since it last had no work
  double most_ns = 0;   // in any window so far

  void add(double ns) {
    now_ns += ns;
    least_ns = std::min(least_ns, now_ns);
    most_ns = std::max(most_ns, now_ns - least_ns);
  }
  void no_work() { now_ns = least_ns = 0; }
  // Somebody else was given as much in advance: windows that began before allow for it.
  void allow(double ns) {
    now_ns -= ns;
    least_ns = std::min(least_ns, now_ns);
  }
};

class History {
 public:
  enum class Kind { kBatchOnly, kBothClasses, kWithHangs };

  History(std::uint64_t seed, Kind kind) : dice_(seed), kind_(kind) {
    // Two that are always there, so that everybody is gated; what one launched before the other
    // came runs first, as the driver likes.
    add(kPrograms[1], 200, TenantClass::kBatch);
    gpu_.run(kMs);
    add(kPrograms[0], 200, TenantClass::kBatch);
    gpu_.run(500 * kMs);
    owed_.assign(owed_.size(), {});
  }

  void play(std::uint64_t ns) {
    const std::uint64_t end = gpu_.now + ns;
    std::uint64_t next_event = gpu_.now;
    while (gpu_.now < end) {
      if (gpu_.now >= next_event) {
        event();
        next_event = gpu_.now + pick(2, 150) * kMs;
      }
      tick();
    }
  }

  [[nodiscard]] double most_owed_ns() const {
    double most = 0;
    for (const Owed& owed : owed_) most = std::max(most, owed.most_ns);
    return most;
  }
  // One request, one batch (as long as the worst prediction makes it), one hand-over; once for what
  // a tenant may be ahead when a window begins, and once for what it may be behind when it ends.
  // Then what the latency class may be ahead.
  [[nodiscard]] double bound_ns() const {
    const GpuSchedule::Tuning& tuning = gpu_.schedule.tuning();
    const double each = static_cast<double>(tuning.request_ns) +
                        static_cast<double>(tuning.batch_ns) / kWorstPrediction + 0.5 * kMs;
    return 2 * each + most_bursts_ns_;
  }
  // Of the time in which somebody had work: run, or gone into switches of the hardware. The GPU is
  // kept free for a batch that hangs, in its turns, until it has hung for a second; that is left
  // out.
  [[nodiscard]] double kept_busy() const { return kept_busy_ns_ / wanted_ns_; }

 private:
  std::uint64_t pick(std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>(from, to)(dice_);
  }

  std::size_t add(const Program& program, std::uint32_t share, TenantClass tenant_class) {
    owed_.emplace_back();
    hangs_.push_back(false);
    toggled_at_.push_back(0);
    return gpu_.add(program, {.share = share, .tenant_class = tenant_class});
  }

  [[nodiscard]] std::uint32_t free_share() const {
    std::uint32_t sum = 0;
    for (const auto& tenant : gpu_.tenants) sum += tenant.there ? tenant.terms.share : 0;
    return 1000 - sum;
  }

  void event() {
    const std::size_t who = pick(2, std::max<std::size_t>(gpu_.tenants.size(), 3) - 1);
    const bool there = who < gpu_.tenants.size() && gpu_.tenants[who].there;
    switch (pick(0, kind_ == Kind::kWithHangs ? 6 : 5)) {
      case 0:
      case 1:
        if (free_share() >= 100 && gpu_.tenants.size() < 40) arrive();
        return;
      case 2:
        if (there) gpu_.kill(who);
        return;
      case 3:
        if (there) gpu_.pause(who);
        return;
      case 4:
        for (std::size_t i = 2; i < gpu_.tenants.size(); ++i) gpu_.resume(i);
        return;
      case 5:
        if (there) change(who);
        return;
      default:
        if (there) {
          hangs_[who] = !hangs_[who];
          toggled_at_[who] = gpu_.now;
          gpu_.tenants[who].program.hangs = hangs_[who];
        }
    }
  }

  void arrive() {
    const auto share = static_cast<std::uint32_t>(pick(50, free_share()));
    if (kind_ != Kind::kBatchOnly && pick(0, 2) == 0) {
      // Asks for half of its share on average.
      const double rate = 0.5 * share / 1000.0 / 1.6e-3;
      add({.kernel_ns = 1'600'000, .requests_per_s = rate}, share, TenantClass::kLatency);
    } else {
      add(kPrograms[pick(0, std::size(kPrograms) - 1)], share, TenantClass::kBatch);
    }
    note_bursts(gpu_.tenants.size() - 1);
  }

  void change(std::size_t who) {
    SliceTerms terms = gpu_.tenants[who].terms;
    terms.share = static_cast<std::uint32_t>(pick(50, terms.share + free_share()));
    if (kind_ != Kind::kBatchOnly && pick(0, 3) == 0) {
      terms.tenant_class =
          terms.tenant_class == TenantClass::kBatch ? TenantClass::kLatency : TenantClass::kBatch;
    }
    gpu_.change(who, terms);
    // What it is entitled to is another thing from here on.
    owed_[who].no_work();
    note_bursts(who);
  }

  // How far a tenant may be ahead: one of the latency class, by its burst.
  [[nodiscard]] double burst_ns(std::size_t i) const {
    const auto& tenant = gpu_.tenants[i];
    if (!tenant.there || tenant.terms.tenant_class != TenantClass::kLatency) return 0;
    const GpuSchedule::Tuning& tuning = gpu_.schedule.tuning();
    return std::max(static_cast<double>(tuning.least_burst_ns),
                    static_cast<double>(tuning.burst_ns) * tenant.terms.share / 1000.0) +
           2.0 * kMs;
  }

  // Every newcomer of the latency class, and whoever is changed, has a burst of its own.
  void note_bursts(std::size_t newcomer) {
    double bursts = 0;
    for (std::size_t i = 0; i < gpu_.tenants.size(); ++i) bursts += burst_ns(i);
    most_bursts_ns_ = std::max(most_bursts_ns_, bursts);
    for (Owed& owed : owed_) owed.allow(burst_ns(newcomer));
  }

  void tick() {
    std::vector<std::uint64_t> before;
    for (const auto& tenant : gpu_.tenants) before.push_back(tenant.ran_ns);
    const std::uint64_t switched_before = gpu_.switched_ns;
    gpu_.tick();
    gpu_.now += GpuModel::kTickNs;
    double weight = 0;
    double served = 0;
    for (std::size_t i = 0; i < gpu_.tenants.size(); ++i) {
      served += static_cast<double>(gpu_.tenants[i].ran_ns - before[i]);
      if (has_work(i)) weight += gpu_.tenants[i].terms.share;
    }
    if (weight > 0 && !somebody_hangs()) {
      wanted_ns_ += GpuModel::kTickNs;
      kept_busy_ns_ += served + static_cast<double>(gpu_.switched_ns - switched_before);
    }
    for (std::size_t i = 0; i < gpu_.tenants.size(); ++i) {
      if (!has_work(i)) {
        owed_[i].no_work();
        continue;
      }
      const double whole = kind_ == Kind::kBatchOnly ? weight : 1000;
      const double entitled = served * gpu_.tenants[i].terms.share / whole;
      owed_[i].add(entitled - static_cast<double>(gpu_.tenants[i].ran_ns - before[i]));
    }
  }

  [[nodiscard]] bool somebody_hangs() const {
    for (std::size_t i = 0; i < gpu_.tenants.size(); ++i) {
      const std::uint64_t given_up = toggled_at_[i] + gpu_.schedule.tuning().stall_ns + 20 * kMs;
      if (gpu_.tenants[i].there && hangs_[i] && gpu_.now < given_up) return true;
    }
    return false;
  }

  [[nodiscard]] bool has_work(std::size_t i) const {
    const auto& tenant = gpu_.tenants[i];
    // Who did not use its turns is passed over for a while, also when it could use them again.
    const bool passed_over = toggled_at_[i] != 0 && gpu_.now < toggled_at_[i] + kLongestPassedOver;
    return tenant.there && tenant.queued > 0 && !tenant.program.hangs && !passed_over;
  }

  std::mt19937_64 dice_;
  Kind kind_;
  GpuModel gpu_;
  std::vector<Owed> owed_;
  std::vector<bool> hangs_;
  std::vector<std::uint64_t> toggled_at_;
  double most_bursts_ns_ = 0;
  double wanted_ns_ = 0;
  double kept_busy_ns_ = 0;
};

constexpr std::uint64_t kSeeds = kSanitized ? 3 : 30;

class Histories : public testing::TestWithParam<History::Kind> {};

TEST_P(Histories, LagIsBoundedInEveryWindow) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    History history(seed, GetParam());
    history.play(4 * kSecond);
    // One that hangs delays the next by two requests and 10 ms (specification, C13), and costs 3 ms
    // whenever it is tried again.
    const bool hangs = GetParam() == History::Kind::kWithHangs;
    EXPECT_LE(history.most_owed_ns(), history.bound_ns() + (hangs ? 34.0 * kMs : 0))
        << "seed " << seed;
    EXPECT_GE(history.kept_busy(), hangs ? 0.98 : 0.99) << "seed " << seed;
  }
}

std::string name_of(const testing::TestParamInfo<History::Kind>& test) {
  constexpr const char* kNames[] = {"BatchOnly", "BothClasses", "WithHangs"};
  return kNames[static_cast<int>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, Histories,
                         testing::Values(History::Kind::kBatchOnly, History::Kind::kBothClasses,
                                         History::Kind::kWithHangs),
                         name_of);

}  // namespace
}  // namespace divvy::share
