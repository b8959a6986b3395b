#include "share/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace divvy::share {
namespace {

// Lags come from measurements; a microsecond is nobody's advantage.
constexpr double kSlackNs = 1'000;

}  // namespace

void FairQueue::add(Member member, const Terms& terms) {
  if (member >= members_.size()) members_.resize(member + 1);
  DIVVY_CHECK(!members_[member].used, "member {} is there already", member);
  members_[member] = {};
  members_[member].used = true;
  members_[member].terms = terms;
  members_[member].left_ns = terms.request_ns;
}

void FairQueue::change(Member member, const Terms& terms) {
  Entry& entry = members_[member];
  DIVVY_CHECK(entry.used && terms.weight > 0, "member {} cannot have a weight of {}", member,
              terms.weight);
  entry.terms = terms;
  entry.left_ns = std::min(entry.left_ns, terms.request_ns);
}

void FairQueue::remove(Member member) {
  set_active(member, false);
  members_[member] = {};
}

// Who comes or goes with a lag changes what the others are entitled to among themselves. What they
// take over when it goes they give back when it returns, so that nobody gains by pausing.
void FairQueue::set_active(Member member, bool active) {
  Entry& entry = members_[member];
  if (entry.active == active) return;
  entry.active = false;
  const double lag = entry.lag_ns;
  entry.lag_ns = std::clamp(lag, -entry.terms.most_ahead_ns, entry.terms.request_ns);
  if (!active) return divide(lag);
  divide(-entry.lag_ns);
  entry.active = true;
  entry.left_ns = entry.terms.request_ns;
}

void FairQueue::divide(double lag_ns) {
  double weight = 0;
  for (const Entry& entry : members_) weight += entry.active ? entry.terms.weight : 0;
  for (Entry& entry : members_) {
    if (entry.active) entry.lag_ns += lag_ns * entry.terms.weight / weight;
  }
}

void FairQueue::serve(Member member, double ns) {
  members_[member].served_ns += ns;
  members_[member].left_ns -= ns;
}

void FairQueue::settle() {
  double weight = 0;
  double served = 0;
  for (const Entry& entry : members_) {
    if (entry.active) weight += entry.terms.weight;
    served += entry.served_ns;
  }
  double sum = 0;
  for (Entry& entry : members_) {
    if (!entry.used) continue;
    entry.lag_ns -= entry.served_ns;
    entry.served_ns = 0;
    const double own = entry.terms.weight;
    if (entry.active) {
      entry.lag_ns += served * own / weight;
    } else if (entry.lag_ns < 0) {
      // What it had too much falls due as others are served, and means nothing where nobody is.
      const double due = weight == 0 ? -entry.lag_ns : served * own / (weight + own);
      entry.lag_ns = std::min(0.0, entry.lag_ns + due);
    }
    entry.lag_ns = std::clamp(entry.lag_ns, -entry.terms.most_ahead_ns, entry.terms.most_behind_ns);
    if (entry.active) sum += entry.lag_ns;
  }
  // What was forgotten of a lag is the others': the lags of the active add up to zero.
  divide(-sum);
}

bool FairQueue::ahead_by_a_request(Member member) const {
  double weight = 0;
  for (const Entry& entry : members_) weight += entry.active ? entry.terms.weight : 0;
  const Entry& entry = members_[member];
  const double others = entry.active ? weight - entry.terms.weight : weight;
  return weight > 0 && entry.lag_ns <= -entry.terms.request_ns * others / weight;
}

double FairQueue::deadline_ns(Member member, Member holder) const {
  const Entry& entry = members_[member];
  const double left = member == holder ? entry.left_ns : entry.terms.request_ns;
  return (left - entry.lag_ns) / entry.terms.weight;
}

FairQueue::Member FairQueue::first(const std::vector<bool>& among, Member holder) const {
  Member best = kNobody;
  bool best_eligible = false;
  for (Member i = 0; i < members_.size() && i < among.size(); ++i) {
    if (!among[i] || !members_[i].used) continue;
    const bool eligible = members_[i].lag_ns >= -kSlackNs;
    if (best != kNobody && best_eligible && !eligible) continue;
    const double ahead = best == kNobody ? 0 : deadline_ns(best, holder) - deadline_ns(i, holder);
    const double tie = kSlackNs / members_[i].terms.weight;
    const bool earlier = ahead > tie || (ahead > -tie && i == holder);
    if (best == kNobody || (eligible && !best_eligible) || earlier) {
      best = i;
      best_eligible = eligible;
    }
  }
  return best;
}

}  // namespace divvy::share
