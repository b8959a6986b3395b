// Which gates are open: the second half of a step, after everything was charged.
#include <algorithm>

#include "share/gpu_schedule.h"

namespace divvy::share {
namespace {

// A context that got on the GPU is left there for 2 ms while it has work, whoever else is past its
// gate by then; so the next gate may be opened before the last tenant has ended.
constexpr double kTimeSliceNs = 1'800'000;
constexpr double kLeadNs = 60'000;
// Who runs for less than this between two pauses that are not short is launch-bound: a turn of its
// own is no use to it.
constexpr double kShortStretchNs = 1'000'000;
// Of what is run between two of them. A turn is kept over shorter pauses than this.
constexpr double kShortPause = 0.1;

}  // namespace

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

bool GpuSchedule::has_turn(const Place& place) const {
  return !line_.empty() && &seats_[line_.front().seat] == &place;
}

// It has the turn, and its pauses are short against what it runs between them.
bool GpuSchedule::keeps_turn(const Place& place) const {
  return has_turn(place) && place.usual_pause_ns < kShortPause * place.usual_stretch_ns;
}

// One that only waits for its CPU does not keep the others off the GPU for long.
bool GpuSchedule::urgent(const Place& place) const {
  return place.contends && latency(place) && !place.exhausted &&
         now_ - place.fed_at < tuning_.starve_ns;
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
  // One that has run for longer now than it usually did has changed, or was misjudged.
  const double stretch = std::max(place.usual_stretch_ns, place.stretch_ns / 4);
  return stretch < kShortStretchNs && place.usual_pause_ns < kLongPauseNs / 2 &&
         place.usual_pause_ns >= kShortPause * stretch;
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
// earlier. Who had it because nobody was owed anything (the one that is waits for its CPU) has no
// more of it than makes it as far ahead as a whole turn does that begins at zero: further ahead, it
// would wait for two turns of that other one afterwards. A turn always begins whole: cut short by
// what was run in others' gaps or before an interruption, it would hold up twice a step that a
// whole one has room for.
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
                          queue_.deadline_ns(first) < queue_.deadline_ns(holder, holder);
  const bool repaid = held && line_[level].lent && queue_.ahead_by_a_request(holder) &&
                      queue_.lag_ns(first) > 0 && !overdue(seats_[first]);
  if (held && !used_up && !interrupts && !repaid) return holder;
  if (held) end_turn(level);
  queue_.renew(first);
  line_.insert(line_.begin() + static_cast<std::ptrdiff_t>(level),
               {first, now_, queue_.lag_ns(first) < 0});
  return first;
}

// Who fills the gaps of a turn that ends goes on with a turn of its own.
void GpuSchedule::end_turn(std::size_t level) {
  if (level == 0) turns_.add(now_ - line_[level].began);
  line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(level));
  if (level == 0 && !line_.empty()) queue_.renew(line_.front().seat);
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
  std::size_t level = 0;
  while (true) {
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
  // Whose turn in the gaps of others is over is forgotten.
  if (line_.size() > std::max<std::size_t>(level, 1)) line_.resize(std::max<std::size_t>(level, 1));
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
