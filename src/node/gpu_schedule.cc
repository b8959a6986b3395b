#include "node/gpu_schedule.h"

#include <algorithm>

#include "base/check.h"

namespace divvy::node {
namespace {

// A sleep of the daemon itself must not become a debt of whoever happened to run.
constexpr std::uint64_t kLongestStepNs = 100'000'000;
// The cycle is short while gaps were left for more than a tenth of about this long.
constexpr std::uint64_t kGapMemoryNs = 200'000'000;
constexpr double kManyGaps = 0.1;
constexpr std::uint64_t kFirstExcuseNs = 5'000'000;
constexpr std::uint64_t kLongestExcuseNs = 500'000'000;

double part(std::uint32_t share) { return std::max(share, 1u) / 1000.0; }

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
  place.bucket_ns = static_cast<double>(tuning_.cap_burst_ns);
  place.credit_ns = burst(place);
  place.wanted_at = now_;
  return seat;
}

void GpuSchedule::change(Seat seat, const SliceTerms& terms) {
  Place& place = seats_[seat];
  DIVVY_CHECK(place.used, "seat {} is nobody's", seat);
  if (terms.capped && !place.terms.capped) {
    place.bucket_ns = static_cast<double>(tuning_.cap_burst_ns);
    place.throttled = false;
  }
  place.terms = terms;
  place.credit_ns = std::min(place.credit_ns, burst(place));
}

void GpuSchedule::remove(Seat seat) {
  seats_[seat] = {};
  if (holder_ == seat) give_turn(kNobody);
}

double GpuSchedule::burst(const Place& place) const {
  return static_cast<double>(tuning_.latency_burst_ns) * part(place.terms.share);
}

std::uint32_t GpuSchedule::batch_ns() const {
  const bool latency = std::any_of(seats_.begin(), seats_.end(), [](const Place& place) {
    return place.used && place.terms.tenant_class == TenantClass::kLatency;
  });
  return static_cast<std::uint32_t>(latency ? tuning_.batch_beside_latency_ns : tuning_.batch_ns);
}

void GpuSchedule::step(std::uint64_t now_ns, const std::vector<Seen>& seen) {
  DIVVY_CHECK(seen.size() == seats_.size(), "{} were seen, {} have a seat", seen.size(),
              seats_.size());
  const std::uint64_t dt = started_ && now_ns > now_ ? std::min(now_ns - now_, kLongestStepNs) : 0;
  started_ = true;
  now_ = std::max(now_, now_ns);
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    if (!seen[i].running || seen[i].finished != place.seen.finished) place.moved_at = now_;
    place.seen = seen[i];
    // Between two batches it is at its open gate for a moment; that is no pause.
    const bool ran = place.runs;
    place.runs = place.seen.running || (ran && place.seen.waiting && place.gate.open);
    place.ended = ran && !place.runs;
    if (place.seen.wants) place.wanted_at = now_;
    if (!place.seen.starved) place.fed_at = now_;
  }
  notice_gaps(dt);
  for (Place& place : seats_) place.behind_ns = behind_others(place);
  charge(dt);
  forget_gaps();
  refill(dt);
  watch_unused_leases(now_, dt);
  choose_gated(now_);
  admit();
  choose_open(now_);
  unstick(now_);
  count_waits();
  choose_next();
}

// A wait is over when the gate opens. One that ends in any other way (its process died, its cap was
// taken away) was none for a lease.
void GpuSchedule::count_waits() {
  for (Place& place : seats_) {
    const bool at_gate = place.used && place.gate.gated && place.seen.wants && !place.seen.running;
    if (at_gate && !place.gate.open) {
      if (!place.stands_since) place.stands_since = now_;
    } else {
      if (place.stands_since && at_gate) place.account.waits.add(now_ - *place.stands_since);
      place.stands_since.reset();
    }
  }
}

void GpuSchedule::notice_gaps(std::uint64_t dt) {
  const bool gap = std::any_of(seats_.begin(), seats_.end(), [](const Place& place) {
    return place.used && place.gate.gated && place.seen.starved;
  });
  const double weight = std::min(1.0, static_cast<double>(dt) / kGapMemoryNs);
  gaps_ += weight * ((gap ? 1.0 : 0.0) - gaps_);
}

// What was seen now is taken to have been so since the last step, but for what ended in between: on
// average that was half way. A tenant whose batch waits for the CPU is charged only when nobody
// else could have used the GPU meanwhile.
void GpuSchedule::charge(std::uint64_t dt) {
  const auto runs = [](const Place& place) { return place.used && place.gate.gated && place.runs; };
  // A latency-class tenant that got on the GPU has pushed the others off it in mid-batch.
  const bool pushed = std::any_of(seats_.begin(), seats_.end(), [&](const Place& place) {
    return runs(place) && place.terms.tenant_class == TenantClass::kLatency && !place.overdrawn;
  });
  const auto works = [&](const Place& place) {
    return runs(place) && !place.seen.starved &&
           (!pushed || place.terms.tenant_class == TenantClass::kLatency);
  };
  auto working = std::count_if(seats_.begin(), seats_.end(), works);
  const bool all_starved = working == 0;
  if (all_starved) working = std::count_if(seats_.begin(), seats_.end(), runs);
  const bool nobody_runs = working == 0;
  const bool mps = over_mps();
  const auto part_of = [&](const Place& place) {
    return mps ? mps_part(place) : 1.0 / static_cast<double>(working);
  };
  for (Place& place : seats_) {
    if (!place.used) continue;
    if (place.seen.wants && !place.seen.running && !place.gate.open) {
      place.account.waited_ns += dt;
      if (place.throttled) place.account.capped_ns += dt;
    }
    if (nobody_runs && stands_in_the_way(place)) {
      place.virtual_ns += static_cast<double>(dt) / part(place.terms.share);
      place.credit_ns -= static_cast<double>(dt);
    }
    const bool ended = nobody_runs && place.ended && place.gate.gated;
    if (!ended && !(all_starved ? runs(place) : works(place))) continue;
    const double each = static_cast<double>(dt) * (ended ? 0.5 : part_of(place));
    place.account.used_ns += static_cast<std::uint64_t>(each);
    used_ns_ += static_cast<std::uint64_t>(each);
    place.virtual_ns += each / part(place.terms.share);
    place.bucket_ns -= each * pace_;
    place.credit_ns -= each;
  }
}

// By how much it is behind the least of the others that contend.
double GpuSchedule::behind_others(const Place& place) const {
  std::optional<double> least;
  for (const Place& other : seats_) {
    if (&other == &place || !other.contends) continue;
    least = std::min(least.value_or(other.virtual_ns), other.virtual_ns);
  }
  return least.has_value() ? *least - place.virtual_ns : 0;
}

// What others ran in its gaps is no claim to be made good: like an idle time, they save up no more
// than a cycle. What was owed to it before stays.
void GpuSchedule::forget_gaps() {
  for (Place& place : seats_) {
    if (place.seen.starved) place.gap_at = now_;
    const bool had_gaps = place.gap_at != 0 && now_ - place.gap_at < tuning_.cycle_ns;
    if (!place.contends || !had_gaps) continue;
    const double most = std::max(place.behind_ns, static_cast<double>(tuning_.cycle_ns));
    place.virtual_ns += std::max(0.0, behind_others(place) - most);
  }
}

// Others are kept off the GPU for it, and it does not use it.
bool GpuSchedule::stands_in_the_way(const Place& place) const {
  if (!place.used || !place.keeps_off || !place.gate.open || !place.seen.wants || place.runs) {
    return false;
  }
  // To get from the gate to the GPU takes a moment. The latency class has none free: it comes and
  // goes at will, and many such moments would be all the time there is.
  const bool at_will = place.terms.tenant_class == TenantClass::kLatency && !place.overdrawn;
  return at_will || now_ - place.opened_at > tuning_.handover_ns;
}

void GpuSchedule::refill(std::uint64_t dt) {
  for (Place& place : seats_) {
    if (!place.used) continue;
    const double gained = static_cast<double>(dt) * part(place.terms.share);
    // Deeper than what it opens with, so that nothing is lost while it waits for its turn.
    const auto enough = static_cast<double>(tuning_.cap_burst_ns);
    place.bucket_ns = std::min(place.bucket_ns + gained, 4 * enough);
    place.credit_ns = std::min(place.credit_ns + gained, burst(place));
    // Once spent, it takes turns like everybody for a while: an overdrawn tenant that came back at
    // once would interrupt the others at every request.
    if (place.credit_ns <= 0) place.overdrawn = true;
    if (place.credit_ns >= burst(place) / 4) place.overdrawn = false;
    if (!place.terms.capped) {
      place.throttled = false;
    } else if (place.bucket_ns <= 0) {
      place.throttled = true;
    } else if (place.bucket_ns >= enough) {
      place.throttled = false;
    }
  }
}

// A tenant that says it has work and does not run although its gate is open (its process lies, its
// context is broken, its driver hangs) is passed over for a while, longer each time.
void GpuSchedule::watch_unused_leases(std::uint64_t now, std::uint64_t dt) {
  for (Place& place : seats_) {
    if (!place.used || !place.gate.gated) continue;
    if (place.seen.running || !place.seen.wants || !place.gate.open) place.opened_at = now;
    if (place.seen.running || !place.seen.wants) {
      place.stood_ns = 0;
      place.stood_idle_ns = 0;
      if (place.seen.running) place.excuse_ns = 0;
      place.has_run = place.has_run || place.seen.running;
      continue;
    }
    if (!place.gate.open) continue;
    const bool others = std::any_of(seats_.begin(), seats_.end(), [&](const Place& other) {
      return other.used && &other != &place && other.seen.wants;
    });
    const bool busy = std::any_of(seats_.begin(), seats_.end(),
                                  [](const Place& other) { return other.seen.running; });
    place.stood_ns += dt;
    // While another's long kernel runs on, it is no fault of this one that it does not: up to a
    // point, or one that says it runs for ever and one that stands for ever would be a wall.
    if (!busy) place.stood_idle_ns += dt;
    // What it put in before it was gated may stand before its first batch.
    const bool unused = place.has_run && place.stood_idle_ns >= tuning_.patience_ns;
    if (!others || (!unused && place.stood_ns < tuning_.first_patience_ns)) continue;
    place.has_run = true;
    place.excuse_ns = std::clamp(place.excuse_ns * 2, kFirstExcuseNs, kLongestExcuseNs);
    place.excused_until = now + place.excuse_ns;
    place.opened_at = now;
    place.stood_ns = 0;
    place.stood_idle_ns = 0;
  }
}

// Who comes to contend (again) has saved nothing up while it did not, and owes nothing for what it
// ran meanwhile that nobody else wanted.
void GpuSchedule::admit() {
  for (Place& place : seats_) {
    const bool contended = place.contends;
    place.contends = contends(place);
    if (contended || !place.contends) continue;
    const auto most = static_cast<double>(tuning_.cycle_ns);
    place.virtual_ns += std::max(0.0, behind_others(place) - most);
  }
}

// Gates cost a little, so whoever has the GPU to itself runs without. At most one tenant does: two
// without gates would not see each other.
void GpuSchedule::choose_gated(std::uint64_t now) {
  const bool mps = over_mps();
  for (Place& place : seats_) {
    if (!place.used) continue;
    bool gated = place.terms.capped;
    bool active = now - place.wanted_at < tuning_.idle_ns || !place.gate.gated;
    for (const Place& other : seats_) {
      if (&other == &place || !other.used || !other.seen.present) continue;
      const bool latency = other.terms.tenant_class == TenantClass::kLatency ||
                           place.terms.tenant_class == TenantClass::kLatency;
      if (mps) {
        gated = gated || latency;
        continue;
      }
      const bool other_active = now - other.wanted_at < tuning_.idle_ns || !other.gate.gated;
      gated = gated || latency || other_active || !active;
    }
    if (gated && !place.gate.gated) {
      place.wanted_at = now;
      place.has_run = false;
    }
    place.gate.gated = gated;
  }
}

bool GpuSchedule::stalled(const Place& place) const {
  return place.seen.running && now_ - place.moved_at >= tuning_.stall_ns;
}

bool GpuSchedule::contends(const Place& place) const {
  return place.used && place.gate.gated && place.seen.wants && !place.throttled &&
         place.excused_until <= now_ && !stalled(place);
}

bool GpuSchedule::backlogged(const Place& place) const {
  return contends(place) && (place.seen.waiting || (place.seen.running && !place.seen.starved));
}

bool GpuSchedule::first_class(const Place& place) const {
  return place.used && place.gate.gated && !place.throttled &&
         place.terms.tenant_class == TenantClass::kLatency && !place.overdrawn;
}

bool GpuSchedule::over_mps() const {
  return std::any_of(seats_.begin(), seats_.end(),
                     [](const Place& place) { return place.used && place.terms.mps; });
}

// What part of the GPU a tenant takes up while it runs over MPS: every process of it has its share
// of the threads, and the latency class has them all.
double GpuSchedule::mps_part(const Place& place) const {
  if (place.terms.tenant_class == TenantClass::kLatency) return 1.0;
  return std::min(1.0, part(place.terms.share) * std::max(place.seen.processes, 1u));
}

void GpuSchedule::set_open(Place& place, bool open, std::uint64_t now) {
  if (open) place.due_since = 0;
  if (open && !place.gate.open) {
    place.opened_at = now;
    if (place.seen.wants) ++place.account.leases;
  }
  place.gate.open = open;
}

void GpuSchedule::choose_open(std::uint64_t now) {
  // One that only waits for its CPU does not keep the others off the GPU for long.
  const auto urgent = [&](const Place& place) {
    return first_class(place) && contends(place) && now - place.fed_at < tuning_.starve_ns;
  };
  for (Place& place : seats_) place.keeps_off = urgent(place);
  if (std::any_of(seats_.begin(), seats_.end(), urgent)) {
    for (Place& place : seats_) {
      if (place.used) set_open(place, !place.gate.gated || first_class(place), now);
    }
    return;
  }
  const auto contenders = std::count_if(seats_.begin(), seats_.end(),
                                        [this](const Place& place) { return contends(place); });
  const bool backlog = std::any_of(seats_.begin(), seats_.end(),
                                   [this](const Place& place) { return backlogged(place); });
  if (contenders >= 2 && backlog && !over_mps()) return take_turns(now);
  if (contenders == 0) give_turn(kNobody);
  // There are no turns over MPS, where the latency class has all threads: with its credit spent it
  // stands until some is back, if others want the GPU.
  const bool spent_stands = over_mps() && contenders >= 2;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    const bool spent =
        spent_stands && place.overdrawn && place.terms.tenant_class == TenantClass::kLatency;
    set_open(place, !place.gate.gated || (!place.throttled && !spent && may_open(place, now)), now);
    // Who is left alone has the turn, and keeps it for a while when the others come back.
    if (contenders != 1 || !contends(place)) continue;
    if (holder_ != i) give_turn(i);
    if (place.gate.open && !turn_began_.has_value()) turn_began_ = now;
  }
}

void GpuSchedule::give_turn(std::size_t seat) {
  if (turn_began_) turns_.add(now_ - *turn_began_);
  holder_ = seat;
  turn_began_.reset();
}

// What others have begun runs to its end before a closed gate opens, unless that takes long:
// while two run, nobody can tell who has the GPU.
bool GpuSchedule::may_open(Place& place, std::uint64_t now) const {
  if (place.gate.open || !place.seen.wants || over_mps()) return true;
  if (place.due_since == 0) place.due_since = now;
  const bool others_run = std::any_of(seats_.begin(), seats_.end(), [&](const Place& other) {
    return other.used && &other != &place && other.seen.running && !other.seen.starved &&
           !stalled(other);
  });
  return !others_run || now - place.due_since >= tuning_.drain_ns;
}

void GpuSchedule::unstick(std::uint64_t now) {
  for (Place& place : seats_) {
    if (!place.used || place.gate.open || !place.seen.running || !place.seen.held) {
      place.stuck_since = 0;
      continue;
    }
    if (place.stuck_since == 0) place.stuck_since = now;
    const std::uint64_t patience = batch_ns() + tuning_.unstick_ns;
    if (now - place.stuck_since < patience) continue;
    place.gate.open = true;
    if (now - place.stuck_since >= patience + tuning_.pulse_ns) place.stuck_since = 0;
  }
}

// The holder goes on until it is ahead of the one that is furthest behind by half a cycle. So a
// turn is in proportion to the share, and one that had to stop early (it waited for its CPU, or for
// an answer) is given the rest later.
void GpuSchedule::take_turns(std::uint64_t now) {
  std::size_t behind = kNobody;
  std::uint64_t shares = 0;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (contends(seats_[i])) shares += std::max(seats_[i].terms.share, 1u);
    if (!backlogged(seats_[i])) continue;
    if (behind == kNobody || seats_[i].virtual_ns < seats_[behind].virtual_ns) behind = i;
  }
  const double lead = static_cast<double>(cycle_ns()) * 500.0 / static_cast<double>(shares);
  const auto goes_on = [&](const Place& holder) {
    // Otherwise one that takes its turn, lets it go and takes it again would leave the others no
    // more than the moments between.
    const double turn = static_cast<double>(cycle_ns()) * part(holder.terms.share);
    const double tenure = std::min(turn / 2, static_cast<double>(tuning_.tenure_ns));
    const bool young = turn_began_.has_value() && static_cast<double>(now - *turn_began_) < tenure;
    return backlogged(holder) && (young || holder.virtual_ns <= seats_[behind].virtual_ns + lead);
  };
  if (holder_ == kNobody || !goes_on(seats_[holder_])) give_turn(behind);
  const bool opens = may_open(seats_[holder_], now);
  seats_[holder_].keeps_off = opens;
  if (opens && !turn_began_.has_value()) turn_began_ = now;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Place& place = seats_[i];
    if (!place.used) continue;
    // The gate of a latency-class tenant that wants nothing now stays open: its next request does
    // not wait for us.
    const bool ready = first_class(place) && !place.seen.wants;
    set_open(place, !place.gate.gated || (i == holder_ && opens) || ready, now);
  }
}

std::uint64_t GpuSchedule::cycle_ns() const {
  return gaps_ > kManyGaps ? tuning_.short_cycle_ns : tuning_.cycle_ns;
}

void GpuSchedule::choose_next() {
  next_in_ns_.reset();
  std::size_t present = 0;
  bool wants = false;
  bool tight = false;
  for (const Place& place : seats_) {
    if (!place.used || !place.gate.gated) continue;
    ++present;
    wants = wants || place.seen.wants;
    tight = tight || (place.seen.wants && place.terms.capped) ||
            place.terms.tenant_class == TenantClass::kLatency;
  }
  const auto contenders = std::count_if(seats_.begin(), seats_.end(), [](const Place& place) {
    return place.used && place.gate.gated && place.seen.wants;
  });
  if (wants) {
    next_in_ns_ = tight || contenders >= 2 ? tuning_.poll_ns : tuning_.calm_poll_ns;
  } else if (present >= 2) {
    // Somebody may soon have been idle for long enough to let another run without gates.
    next_in_ns_ = tuning_.idle_ns / 2;
  }
}

}  // namespace divvy::node
