#include "share/gpu_schedule.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace divvy::share {
namespace {

// A sleep of the daemon itself must not become a debt of whoever happened to run.
constexpr std::uint64_t kLongestStepNs = 100'000'000;
constexpr std::uint64_t kFirstExcuseNs = 5'000'000;
constexpr std::uint64_t kLongestExcuseNs = 500'000'000;
// The hardware's switch between two contexts, measured on an H200, and what it takes at most from
// an opened gate to the GPU.
constexpr std::uint64_t kSwitchNs = 110'000;
constexpr std::uint64_t kHandoverNs = 300'000;
// No more than this part is taken off for gates, or empty batches would be a way not to be charged.
constexpr double kMostForGates = 0.1;
constexpr double kMostGatesLeftNs = 20'000;
// What a closed cap regains before it opens is no more than its part of this.
constexpr double kCapPeriodNs = 40'000'000;
// Beyond its burst, a latency-class tenant waits until so much of it has fallen due.
constexpr double kRegainedNs = 4'000'000;

double part(std::uint32_t share) { return std::max(share, 1u) / 1000.0; }

// What each gets of `whole` who could use that much: equal parts, where nobody gets more than it
// can use.
void divide(std::vector<double>& most, double whole) {
  std::vector<std::size_t> order(most.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return most[i]; });
  std::size_t left = order.size();
  for (const std::size_t i : order) {
    most[i] = std::min(most[i], whole / static_cast<double>(left));
    whole -= most[i];
    --left;
  }
}

}  // namespace

GpuSchedule::Seat GpuSchedule::add(const SliceTerms& terms) {
  const auto free =
      std::find_if(seats_.begin(), seats_.end(), [](const Place& place) { return !place.used; });
  const auto seat = static_cast<Seat>(free - seats_.begin());
  if (free == seats_.end()) seats_.emplace_back();
  Place& place = seats_[seat];
  place = {};
  place.used = true;
  place.terms = terms;
  place.bucket_ns = cap_burst(place) / 2;
  place.wanted_at = now_;
  queue_.add(seat, {.weight = part(terms.share)});
  renew_terms();
  // Before its first launch: what goes into a stream without a gate, nobody can hold back.
  choose_gated();
  place.gate.open = !place.gate.gated;
  return seat;
}

void GpuSchedule::change(Seat seat, const SliceTerms& terms) {
  Place& place = seats_[seat];
  DIVVY_CHECK(place.used, "seat {} is nobody's", seat);
  const bool newly_capped = terms.capped && !place.terms.capped;
  place.terms = terms;
  if (newly_capped) {
    place.bucket_ns = cap_burst(place) / 2;
    place.throttled = false;
  }
  renew_terms();
}

void GpuSchedule::remove(Seat seat) {
  seats_[seat] = {};
  queue_.remove(seat);
  renew_terms();
}

// What one may be ahead of the others, they are behind.
void GpuSchedule::renew_terms() {
  double bursts = 0;
  double longest = 0;
  for (const Place& place : seats_) {
    if (!place.used) continue;
    if (latency(place)) bursts += burst(place);
    longest = std::max(longest, std::min(place.longest_batch_ns, kLongestDebtNs));
  }
  const double turn = this->turn();
  for (Seat i = 0; i < seats_.size(); ++i) {
    const Place& place = seats_[i];
    if (!place.used) continue;
    const bool at_once = latency(place) && !place.exhausted;
    queue_.change(i,
                  {.weight = part(place.terms.share),
                   .request_ns = at_once ? static_cast<double>(tuning_.latency_request_ns) : turn,
                   .most_ahead_ns = turn + longest + (latency(place) ? burst(place) : 0),
                   .most_behind_ns = turn + longest + bursts});
  }
}

// Many who want the GPU at once mostly ask for little each, and one that asks again does not come
// before all others who asked first. A switch costs 110 us, so a turn is no shorter than the
// hardware's own time slice.
double GpuSchedule::turn() const {
  const auto contenders = static_cast<std::uint64_t>(
      std::ranges::count_if(seats_, [](const Place& place) { return place.contends; }));
  return static_cast<double>(std::clamp(tuning_.round_ns / std::max<std::uint64_t>(contenders, 1),
                                        tuning_.least_request_ns, tuning_.request_ns));
}

double GpuSchedule::burst(const Place& place) const {
  return std::max(static_cast<double>(tuning_.burst_ns) * part(place.terms.share),
                  static_cast<double>(tuning_.least_burst_ns));
}

double GpuSchedule::cap_burst(const Place& place) const {
  return std::min(static_cast<double>(tuning_.cap_burst_ns),
                  kCapPeriodNs * part(place.terms.share));
}

bool GpuSchedule::latency(const Place& place) const {
  return place.terms.tenant_class == TenantClass::kLatency;
}

std::uint32_t GpuSchedule::batch_ns() const {
  const bool beside = std::any_of(seats_.begin(), seats_.end(), [this](const Place& place) {
    return place.used && latency(place);
  });
  return static_cast<std::uint32_t>(beside ? tuning_.batch_beside_latency_ns : tuning_.batch_ns);
}

void GpuSchedule::step(std::uint64_t now_ns, const std::vector<Seen>& seen) {
  DIVVY_CHECK(seen.size() == seats_.size(), "{} were seen, {} have a seat", seen.size(),
              seats_.size());
  const std::uint64_t dt = started_ && now_ns > now_ ? std::min(now_ns - now_, kLongestStepNs) : 0;
  started_ = true;
  now_before_ = now_;
  now_ = std::max(now_, now_ns);
  // While nobody had work nobody looked: what runs now began with the bell that ended the sleep.
  const std::uint64_t looked = anybody_had_work_ ? dt : std::min(dt, tuning_.calm_poll_ns);
  intake(seen);
  charge(looked);
  refill(dt);
  watch_unused_leases(looked);
  choose_gated();
  admit();
  if (over_mps()) {
    choose_open_over_mps();
  } else {
    open_in_line();
  }
  unstick();
  count_waits();
  choose_next();
}

void GpuSchedule::intake(const std::vector<Seen>& seen) {
  anybody_had_work_ = false;
  for (Seat i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    const std::uint32_t ended = seen[i].finished - place.work.seen().finished;
    const bool finished = ended != 0;
    place.gates_ns += static_cast<double>(tuning_.gate_ns * ended);
    if (finished) {
      const auto took_ns = static_cast<double>(now_ - place.moved_at);
      const bool longer = took_ns > place.longest_batch_ns;
      place.longest_batch_ns = std::max(took_ns, 0.99 * place.longest_batch_ns);
      if (longer) renew_terms();
    }
    if (!seen[i].running || finished) place.moved_at = now_;
    const bool ran = place.work.runs();
    place.work.take(seen[i], place.gate.open);
    if (place.work.runs() && !ran) {
      place.on_since = now_;
      place.switched = last_on_ != i;
      last_on_ = i;
    }
    if (seen[i].wants) place.wanted_at = now_;
    anybody_had_work_ = anybody_had_work_ || seen[i].wants;
    const bool gap = place.work.in_gap();
    learn_pauses(place, gap);
    if (seen[i].wants && !gap) place.fed_at = now_;
  }
}

// How long it usually has nothing to run, and how long it runs in between.
void GpuSchedule::learn_pauses(Place& place, bool gap) {
  const bool back = place.work.seen().wants && !gap && place.fed_at != now_before_;
  if (!back || place.stretch_ns == 0) return;
  const double pause = std::min(kLongPauseNs, static_cast<double>(now_ - place.fed_at));
  place.usual_pause_ns += (pause - place.usual_pause_ns) / 4;
  place.usual_stretch_ns += (place.stretch_ns - place.usual_stretch_ns) / 4;
  place.stretch_ns = 0;
}

void GpuSchedule::charge(std::uint64_t dt) {
  const auto passed = static_cast<double>(dt);
  const auto ahead_of_all = [this](const Place& place) {
    return place.used && latency(place) && !place.exhausted;
  };
  // A latency-class tenant that got on the GPU has pushed the others off it in mid-batch.
  const bool pushed = std::any_of(seats_.begin(), seats_.end(), [&](const Place& place) {
    return ahead_of_all(place) && place.work.runs();
  });
  const auto fed = std::count_if(seats_.begin(), seats_.end(),
                                 [](const Place& place) { return place.used && place.work.fed(); });
  std::vector<double> used(seats_.size());
  for (Seat i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used || (pushed && !ahead_of_all(place))) continue;
    // The time of a hand-over is nobody's.
    const bool switching = place.switched && now_ - place.on_since < kSwitchNs;
    if (place.work.runs() && switching && !over_mps()) continue;
    used[i] = place.work.most_ns(passed, fed == 0);
    // A look is shorter than most batches: what it has no room for is left to the next ones.
    const double gates = std::min(place.gates_ns, kMostForGates * used[i]);
    used[i] -= gates;
    place.gates_ns = std::min(place.gates_ns - gates, kMostGatesLeftNs);
    if (over_mps()) used[i] *= mps_part(place);
  }
  if (!over_mps()) divide(used, passed);
  const double busy = std::accumulate(used.begin(), used.end(), 0.0);
  for (Seat i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    place.account.used_ns += static_cast<std::uint64_t>(used[i]);
    used_ns_ += static_cast<std::uint64_t>(used[i]);
    place.bucket_ns -= used[i];
    place.stretch_ns += used[i];
    place.work.run_down(used[i], passed);
    const Seen& seen = place.work.seen();
    if (seen.wants && !seen.running && !place.gate.open) {
      place.account.waited_ns += dt;
      if (place.throttled) place.account.capped_ns += dt;
    }
    // Over MPS, who runs alone has the whole GPU's turn, whatever part of it it can use.
    const double turn = over_mps() && busy > 0 ? used[i] / busy * passed : used[i];
    queue_.serve(i, turn + (stands_in_the_way(place) ? std::max(0.0, passed - busy) : 0));
  }
  queue_.settle();
}

// Others are kept off the GPU for it, and it does not use it. That is charged, but is no GPU time:
// what tenants say about themselves may be a lie, and none may keep the others off for nothing.
bool GpuSchedule::stands_in_the_way(const Place& place) const {
  if (!place.keeps_off || !place.gate.open) return false;
  return place.work.runs() || expected_back(place) || now_ - place.opened_at > kHandoverNs;
}

void GpuSchedule::refill(std::uint64_t dt) {
  bool changed = false;
  for (Seat i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    // Deeper than what it opens with, so that nothing is lost while it waits for its turn.
    const double enough = cap_burst(place);
    place.bucket_ns =
        std::min(place.bucket_ns + static_cast<double>(dt) * part(place.terms.share), 2 * enough);
    if (!place.terms.capped || place.bucket_ns >= enough) {
      place.throttled = false;
    } else if (place.bucket_ns <= 0) {
      place.throttled = true;
    }
    const bool before = place.exhausted;
    const double lag = queue_.lag_ns(i);
    if (!latency(place) || lag >= std::min(kRegainedNs - burst(place), -burst(place) / 2)) {
      place.exhausted = false;
    } else if (lag <= -burst(place)) {
      place.exhausted = true;
    }
    changed = changed || place.exhausted != before;
  }
  if (changed) renew_terms();
}

// A tenant that says it has work and does not run although its gate is open (its process lies, its
// context is broken, its driver hangs) is passed over for a while, longer each time.
void GpuSchedule::watch_unused_leases(std::uint64_t dt) {
  for (Place& place : seats_) {
    if (!place.used || !place.gate.gated) continue;
    const Seen& seen = place.work.seen();
    if (seen.running || !seen.wants || !place.gate.open) place.opened_at = now_;
    if (seen.running || !seen.wants) {
      place.stood_ns = 0;
      place.stood_idle_ns = 0;
      if (seen.running) place.excuse_ns = 0;
      place.has_run = place.has_run || seen.running;
      continue;
    }
    if (!place.gate.open) continue;
    const bool others = std::any_of(seats_.begin(), seats_.end(), [&](const Place& other) {
      return other.used && &other != &place && other.work.seen().wants;
    });
    const bool busy = std::any_of(seats_.begin(), seats_.end(), [this](const Place& other) {
      return other.used && other.work.seen().running && !stalled(other);
    });
    place.stood_ns += dt;
    // While another's long kernel runs on, it is no fault of this one that it does not: up to a
    // point, or one that says it runs for ever and one that stands for ever would be a wall.
    if (!busy) place.stood_idle_ns += dt;
    // What it put in before it was gated may stand before its first batch.
    const bool unused = place.has_run && place.stood_idle_ns >= tuning_.patience_ns;
    if (!others || (!unused && place.stood_ns < tuning_.first_patience_ns)) continue;
    place.has_run = true;
    place.excuse_ns = std::clamp(place.excuse_ns * 2, kFirstExcuseNs, kLongestExcuseNs);
    place.excused_until = now_ + place.excuse_ns;
    place.opened_at = now_;
    place.stood_ns = 0;
    place.stood_idle_ns = 0;
  }
}

bool GpuSchedule::over_mps() const {
  return std::any_of(seats_.begin(), seats_.end(),
                     [](const Place& place) { return place.used && place.terms.mps; });
}

// What part of the GPU a tenant takes up while it runs over MPS: every process of it has its share
// of the threads, and the latency class has them all.
double GpuSchedule::mps_part(const Place& place) const {
  if (latency(place)) return 1.0;
  return std::min(1.0, part(place.terms.share) * std::max(place.work.seen().processes, 1u));
}

}  // namespace divvy::share
