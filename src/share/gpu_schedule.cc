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
// A context that got on the GPU is left there for 2 ms while it has work, whoever else is past its
// gate by then; so the next gate may be opened before the last tenant has ended.
constexpr double kTimeSliceNs = 1'800'000;
constexpr double kLeadNs = 60'000;
// Who runs for less than this between two pauses is launch-bound: a turn of its own is no use to
// it.
constexpr double kShortStretchNs = 1'000'000;
// What a closed cap regains before it opens is no more than its part of this.
constexpr double kCapPeriodNs = 40'000'000;
// A batch cannot be interrupted; so much of one is remembered over a pause.
constexpr double kLongestDebtNs = 100'000'000;
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
  const auto turn = static_cast<double>(tuning_.request_ns);
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
    place.ended_batches = seen[i].finished - place.work.seen().finished;
    const bool finished = place.ended_batches != 0;
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
    const Place& place = seats_[i];
    if (!place.used || (pushed && !ahead_of_all(place))) continue;
    // The time of a hand-over is nobody's.
    const bool switching = place.switched && now_ - place.on_since < kSwitchNs;
    if (place.work.runs() && switching && !over_mps()) continue;
    used[i] = place.work.most_ns(passed, fed == 0);
    used[i] -= std::min(static_cast<double>(tuning_.gate_ns * place.ended_batches),
                        kMostForGates * used[i]);
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

// Gates cost a little, so whoever has the GPU to itself runs without. At most one tenant does: two
// without gates would not see each other.
void GpuSchedule::choose_gated() {
  const bool mps = over_mps();
  for (Place& place : seats_) {
    if (!place.used) continue;
    bool gated = place.terms.capped;
    bool beside = false;
    const bool active = now_ - place.wanted_at < tuning_.idle_ns || !place.gate.gated;
    for (const Place& other : seats_) {
      if (&other == &place || !other.used || !other.work.seen().present) continue;
      const bool either = latency(other) || latency(place);
      const bool other_active = now_ - other.wanted_at < tuning_.idle_ns || !other.gate.gated;
      beside = beside || either || (!mps && other_active);
      gated = gated || either || (!mps && (other_active || !active));
    }
    if (gated && !place.gate.gated) {
      place.wanted_at = now_;
      place.has_run = false;
    }
    place.gate.gated = gated;
    // A launch-bound tenant holds nobody up, and would be held up by telling the end of each step.
    place.gate.contended = beside && !launch_bound(place);
  }
}

bool GpuSchedule::stalled(const Place& place) const {
  return place.work.seen().running && now_ - place.moved_at >= tuning_.stall_ns;
}

bool GpuSchedule::overdue(const Place& place) const {
  const double usual = 2 * std::min(place.longest_batch_ns, kLongestDebtNs);
  return place.work.fed() && static_cast<double>(now_ - place.moved_at) >=
                                 static_cast<double>(tuning_.drain_ns) + usual;
}

bool GpuSchedule::contends(const Place& place) const {
  const bool silent = place.work.seen().starved && now_ - place.fed_at >= tuning_.silence_ns;
  const bool wants = (place.work.seen().wants && !silent) || expected_back(place);
  return place.used && place.gate.gated && wants && !place.throttled &&
         place.excused_until <= now_ && !stalled(place);
}

// It has the turn, has just run out of work, and usually comes back before anybody else could have
// used the GPU for long. The turn is kept for it at its own expense: to switch away and back takes
// longer than such a pause, and what others begin meanwhile runs longer.
bool GpuSchedule::expected_back(const Place& place) const {
  const auto idle = static_cast<double>(now_ - place.fed_at);
  return keeps_turn(place) && (!place.work.seen().wants || place.work.seen().starved) &&
         idle < 2 * place.usual_pause_ns;
}

// It has the turn, and its pauses are short against what it runs between them.
bool GpuSchedule::keeps_turn(const Place& place) const {
  const bool has_turn = !line_.empty() && &seats_[line_.front().seat] == &place;
  return has_turn && place.usual_pause_ns < 0.1 * place.usual_stretch_ns;
}

// One that only waits for its CPU does not keep the others off the GPU for long.
bool GpuSchedule::urgent(const Place& place) const {
  return place.contends && latency(place) && !place.exhausted &&
         now_ - place.fed_at < tuning_.starve_ns;
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

void GpuSchedule::admit() {
  for (Seat i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    const bool before = place.contends;
    place.contends = contends(place);
    if (place.contends != before) renew_terms();
    queue_.set_active(i, place.contends);
    // Who was away for less than a batch is no newcomer, except in the latency class.
    if (before && !place.contends) place.left_at = now_;
    const bool was_away = latency(place) || now_ - place.left_at > tuning_.batch_ns;
    if (place.contends && !before && was_away) place.arrived_at = now_;
    // Among the latency class, whose request is used up lets all others come before it.
    if (latency(place) && !place.exhausted && queue_.used_up(i)) {
      queue_.renew(i);
      if (urgent_turn_ == i) urgent_turn_ = i + 1;
    }
  }
}

void GpuSchedule::set_open(Place& place, bool open) {
  if (open) place.due_since = 0;
  if (open && !place.gate.open) {
    place.opened_at = now_;
    if (place.work.seen().wants) ++place.account.leases;
  }
  place.gate.open = open;
}

// What others have begun runs to its end before a closed gate opens, unless that takes long: while
// two run, nobody can tell who has the GPU. The latency class does not wait for those that it
// interrupts: the hardware goes on with it when they stand.
bool GpuSchedule::may_open(Place& place) const {
  if (place.gate.open) return true;
  if (place.due_since == 0) place.due_since = now_;
  const bool others_run = std::any_of(seats_.begin(), seats_.end(), [&](const Place& other) {
    return other.used && &other != &place && other.work.fed() && !stalled(other) &&
           !(urgent(place) && !urgent(other)) && !ends_soon(other, place);
  });
  return !others_run || now_ - place.due_since >= tuning_.drain_ns;
}

bool GpuSchedule::launch_bound(const Place& place) const {
  return place.usual_stretch_ns < kShortStretchNs && place.usual_pause_ns < kLongPauseNs / 2;
}

// It has the turn and would leave the GPU idle if it had it alone: it waits for its CPU, and not
// only for a moment; it does so most of the time; or nobody knows yet when what it has put in will
// get to its gate (a context that is made, code that is loaded).
bool GpuSchedule::lets_others_in(const Place& place) const {
  if (urgent(place)) return false;
  return launch_bound(place) || !place.has_run || (place.work.in_gap() && !expected_back(place));
}

// The hardware will go on with `next` by itself when this one has ended. Where others may come
// before `next` until then, only at the last moment.
bool GpuSchedule::ends_soon(const Place& place, const Place& next) const {
  const std::optional<double> left = place.work.ends_in_ns(place.gate.open);
  if (!left || keeps_turn(place)) return false;
  const bool in_its_slice = static_cast<double>(now_ - place.on_since) + *left < kTimeSliceNs;
  if (*left <= kLeadNs) return in_its_slice || place.work.knows_batch();
  return in_its_slice && urgent(place) && urgent(next);
}

// The one that has the turn among them, then the others as they sit.
GpuSchedule::Seat GpuSchedule::next_urgent(const std::vector<bool>& rest) const {
  for (Seat i = 0; i < seats_.size(); ++i) {
    const Seat next = (urgent_turn_ + i) % seats_.size();
    if (rest[next] && urgent(seats_[next])) return next;
  }
  return kNobody;
}

// Who has the turn keeps it until its request is used up, unless one that has come since is due
// earlier.
GpuSchedule::Seat GpuSchedule::next_turn(std::size_t level, const std::vector<bool>& rest) {
  while (line_.size() > level && (line_[level].seat >= rest.size() || !rest[line_[level].seat])) {
    end_turn(level);
  }
  const bool held = line_.size() > level;
  const Seat holder = held ? line_[level].seat : kNobody;
  const bool used_up = held && queue_.used_up(holder);
  if (used_up) queue_.renew(holder);
  Seat first = queue_.first(rest, holder);
  // Whose batch takes longer than any before may hang: whatever it is owed, the next one comes.
  if (used_up && first == holder && overdue(seats_[holder])) {
    std::vector<bool> others = rest;
    others[holder] = false;
    const Seat other = queue_.first(others);
    if (other != kNobody) first = other;
  }
  if (first == holder || first == kNobody) return holder;
  const bool interrupts = held && !used_up && seats_[first].arrived_at > line_[level].began &&
                          queue_.deadline_ns(first) < queue_.deadline_ns(holder);
  if (held && !used_up && !interrupts) return holder;
  if (held) end_turn(level);
  if (queue_.used_up(first)) queue_.renew(first);
  line_.insert(line_.begin() + static_cast<std::ptrdiff_t>(level), {first, now_});
  return first;
}

void GpuSchedule::end_turn(std::size_t level) {
  if (level == 0) turns_.add(now_ - line_[level].began);
  line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(level));
}

void GpuSchedule::open_in_line() {
  std::vector<bool> rest(seats_.size());
  for (Seat i = 0; i < seats_.size(); ++i) {
    seats_[i].keeps_off = false;
    rest[i] = seats_[i].contends;
  }
  const bool anybody = std::ranges::find(rest, true) != rest.end();
  const Seat urgent_turn = next_urgent(rest);
  const bool at_once = urgent_turn != kNobody;
  if (at_once) urgent_turn_ = urgent_turn;
  std::vector<bool> open(seats_.size());
  Seat last = kNobody;
  for (std::size_t level = 0;;) {
    Seat next = next_urgent(rest);
    if (next == kNobody) next = next_turn(level++, rest);
    if (next == kNobody) break;
    rest[next] = false;
    Place& place = seats_[next];
    if (last != kNobody && !lets_others_in(seats_[last]) && !ends_soon(seats_[last], place)) break;
    open[next] = may_open(place);
    place.keeps_off = open[next];
    if (last != kNobody) seats_[last].keeps_off = false;
    if (!open[next] || (last != kNobody && !lets_others_in(seats_[last]))) break;
    last = next;
  }
  if (!anybody) {
    while (!line_.empty()) end_turn(0);
  }
  for (Seat i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    // Whoever comes when nobody contends does not wait for us, nor does the next request of the
    // latency class while none of it is served.
    const bool ready =
        !place.throttled &&
        (!anybody || (latency(place) && !place.exhausted && !at_once && !place.work.seen().wants));
    set_open(place, !place.gate.gated || open[i] || ready);
  }
}

void GpuSchedule::choose_open_over_mps() {
  const auto contenders = std::count_if(seats_.begin(), seats_.end(),
                                        [](const Place& place) { return place.contends; });
  const bool at_once = std::any_of(seats_.begin(), seats_.end(),
                                   [this](const Place& place) { return urgent(place); });
  for (Place& place : seats_) {
    if (!place.used) continue;
    const bool first_class = latency(place) && !place.exhausted;
    place.keeps_off = at_once && urgent(place);
    // There are no turns over MPS, where the latency class has all threads: beyond its burst it
    // stands until some has fallen due, if others want the GPU.
    const bool spent = latency(place) && place.exhausted && contenders >= 2;
    const bool open = at_once ? first_class : !spent;
    set_open(place, !place.gate.gated || (open && !place.throttled));
  }
}

// What runs of a closed tenant waits for what stands at its gate: let it through for a moment.
void GpuSchedule::unstick() {
  constexpr std::uint64_t kBeyondABatchNs = 1'000'000;
  constexpr std::uint64_t kPulseNs = 200'000;
  for (Place& place : seats_) {
    const Seen& seen = place.work.seen();
    if (!place.used || place.gate.open || !seen.running || !seen.held) {
      place.stuck_since = 0;
      continue;
    }
    if (place.stuck_since == 0) place.stuck_since = now_;
    const std::uint64_t patience = batch_ns() + kBeyondABatchNs;
    if (now_ - place.stuck_since < patience) continue;
    place.gate.open = true;
    if (now_ - place.stuck_since >= patience + kPulseNs) place.stuck_since = 0;
  }
}

// A wait is over when the gate opens. One that ends in any other way (its process died, its cap was
// taken away) was none for a lease.
void GpuSchedule::count_waits() {
  for (Place& place : seats_) {
    const Seen& seen = place.work.seen();
    const bool at_gate = place.used && place.gate.gated && seen.wants && !seen.running;
    if (at_gate && !place.gate.open) {
      if (!place.stands_since) place.stands_since = now_;
    } else {
      if (place.stands_since && at_gate) place.account.waits.add(now_ - *place.stands_since);
      place.stands_since.reset();
    }
  }
}

void GpuSchedule::choose_next() {
  next_in_ns_.reset();
  std::size_t present = 0;
  bool wants = false;
  bool tight = false;
  for (const Place& place : seats_) {
    if (!place.used || !place.gate.gated) continue;
    ++present;
    wants = wants || place.work.seen().wants;
    tight = tight || (place.work.seen().wants && place.terms.capped);
  }
  if (wants) {
    next_in_ns_ = tight || present >= 2 ? tuning_.poll_ns : tuning_.calm_poll_ns;
  } else if (present >= 2) {
    // Somebody may soon have been idle for long enough to let another run without gates.
    next_in_ns_ = tuning_.idle_ns / 2;
  }
}

}  // namespace divvy::share
