#include "health/health.h"

#include <fmt/format.h>

#include <algorithm>

#include "health/xid_policy.h"

namespace divvy::health {
namespace {

using enum HealthState;

// What one incident shows in several ways within this time counts once.
constexpr Duration kOneIncident = std::chrono::seconds(5);

}  // namespace

Health::Severity Health::severity(Trouble kind, TimePoint now) const {
  const auto& present = lasting(kind);
  if (!present) return Severity::kNone;
  switch (kind) {
    case Trouble::kLost:
    case Trouble::kResetRequired:
    case Trouble::kRemapFailed:
      return Severity::kCondemned;
    case Trouble::kSilent:
      return present->hopeless ? Severity::kCondemned : Severity::kSuspect;
    case Trouble::kFailing:
      return now - present->since >= policy_.failing_time ? Severity::kCondemned
                                                          : Severity::kSuspect;
    // Both end by themselves or by a reset that somebody has to do when the tenants are gone; the
    // GPU computes rightly meanwhile.
    case Trouble::kRemapPending:
    case Trouble::kHot:
      return Severity::kSuspect;
  }
  return Severity::kSuspect;
}

std::optional<Trouble> Health::worst(TimePoint now) const {
  std::optional<Trouble> found;
  for (std::size_t i = 0; i < kTroubles; ++i) {
    const auto kind = static_cast<Trouble>(i);
    if (!lasting(kind)) continue;
    if (!found || severity(kind, now) > severity(*found, now)) found = kind;
  }
  return found;
}

void Health::set(Trouble kind, bool present, std::string_view why, TimePoint now) {
  auto& entry = lasting(kind);
  if (!present) {
    entry.reset();
  } else if (!entry) {
    entry = Lasting{std::string(why), now, false};
  }
}

HealthChanges Health::sample(const GpuSample& sample, TimePoint now) {
  HealthChanges changes;
  times_asked_ = 0;
  for (const Trouble kind :
       {Trouble::kLost, Trouble::kResetRequired, Trouble::kSilent, Trouble::kFailing}) {
    // It lasted until now.
    if (lasting(kind)) quiet_since_ = now;
    set(kind, false, {}, now);
  }
  look_at_temperature(sample, now);
  look_at_memory(sample, now, changes);
  follow_troubles(now, changes);
  return changes;
}

void Health::look_at_temperature(const GpuSample& sample, TimePoint now) {
  if (!sample.temperature_c || !sample.slowdown_temperature_c) return;
  const std::uint32_t limit = *sample.slowdown_temperature_c;
  if (*sample.temperature_c + policy_.hot_margin_c <= limit) {
    if (lasting(Trouble::kHot)) quiet_since_ = now;
    hot_since_.reset();
    set(Trouble::kHot, false, {}, now);
    return;
  }
  if (*sample.temperature_c >= limit && !hot_since_) hot_since_ = now;
  if (hot_since_ && now - *hot_since_ >= policy_.hot_time) {
    set(Trouble::kHot, true,
        fmt::format("too hot: {} degrees Celsius, and clocks are lowered from {} on; look after "
                    "its cooling",
                    *sample.temperature_c, limit),
        now);
  }
}

void Health::look_at_memory(const GpuSample& sample, TimePoint now, HealthChanges& changes) {
  if (sample.remap_failed) {
    set(Trouble::kRemapFailed, *sample.remap_failed,
        "a broken memory row could not be replaced; have the GPU exchanged", now);
  }
  if (sample.remap_pending) {
    set(Trouble::kRemapPending, *sample.remap_pending,
        "a broken memory row is replaced at the next reset; reset the GPU when its tenants are "
        "gone",
        now);
  }
  if (!sample.uncorrected_errors) return;
  const std::uint64_t errors = *sample.uncorrected_errors;
  // Those of before the daemon's time were somebody else's; a count that fell was started anew.
  const std::uint64_t before = uncorrected_errors_.value_or(errors);
  uncorrected_errors_ = errors;
  if (errors <= before) return;
  finding(Severity::kSuspect,
          fmt::format("{} new uncorrected memory {}", errors - before,
                      errors - before == 1 ? "error" : "errors"),
          now, changes);
}

HealthChanges Health::xid(std::uint64_t number, TimePoint now) {
  if (std::ranges::find(policy_.ignored_xids, number) != policy_.ignored_xids.end()) return {};
  HealthChanges changes;
  switch (judge_xid(number).verdict) {
    case XidVerdict::kApplication:
    case XidVerdict::kNote:
      break;
    case XidVerdict::kSuspect:
      finding(Severity::kSuspect, describe_xid(number), now, changes);
      break;
    case XidVerdict::kCondemned:
      finding(Severity::kCondemned, describe_xid(number), now, changes);
      break;
  }
  return changes;
}

HealthChanges Health::trouble(Trouble kind, std::string_view why, TimePoint now) {
  HealthChanges changes;
  set(kind, true, why, now);
  follow_troubles(now, changes);
  return changes;
}

HealthChanges Health::given_up(TimePoint now) {
  HealthChanges changes;
  if (auto& silent = lasting(Trouble::kSilent)) silent->hopeless = true;
  follow_troubles(now, changes);
  return changes;
}

HealthChanges Health::probed(const ProbeResult& result, TimePoint now) {
  HealthChanges changes;
  // The answer to a question that nobody asks any more.
  if (state_ != kQuarantined && state_ != kProbation) return changes;
  if (result.outcome != ProbeResult::Outcome::kPassed) {
    const std::string why = result.outcome == ProbeResult::Outcome::kHung
                                ? "the probe did not come back"
                                : "the probe failed: " + result.why;
    quiet_since_ = now;
    go(kQuarantined, why, now, changes);
    return changes;
  }
  if (state_ == kQuarantined) {
    probes_passed_ = 0;
    go(kProbation, "the probe passed; watched before it is trusted again", now, changes);
  }
  ++probes_passed_;
  next_probe_ = now + policy_.probation_interval;
  if (probes_passed_ >= policy_.probation_probes) go(kHealthy, {}, now, changes);
  return changes;
}

HealthChanges Health::tick(TimePoint now) {
  HealthChanges changes;
  follow_troubles(now, changes);
  if (state_ == kHealthy && now - quiet_since_ >= policy_.forget_time) quarantines_ = 0;
  return changes;
}

void Health::strike(TimePoint now) {
  if (!strikes_.empty() && now - strikes_.back() < kOneIncident) return;
  strikes_.push_back(now);
}

void Health::finding(Severity severity, const std::string& why, TimePoint now,
                     HealthChanges& changes) {
  quiet_since_ = now;
  strike(now);
  while (!strikes_.empty() && now - strikes_.front() > policy_.strike_window) strikes_.pop_front();
  const bool again = strikes_.size() >= policy_.strikes;
  switch (state_) {
    case kHealthy:
    case kSuspect:
      if (severity == Severity::kCondemned) {
        go(kQuarantined, why, now, changes);
      } else if (again) {
        go(kQuarantined, fmt::format("in trouble again and again; the last was {}", why), now,
           changes);
      } else if (state_ == kHealthy) {
        go(kSuspect, why, now, changes);
      } else {
        reason_ = why;
      }
      return;
    case kQuarantined:
      // The quiet time that it is waiting for begins anew.
      quarantined_until_ = std::max(quarantined_until_, now + quarantine_of(quarantines_));
      if (severity == Severity::kCondemned) reason_ = why;
      return;
    case kProbation:
      go(kQuarantined, why, now, changes);
      return;
    case kUnknown:
      return;
  }
}

void Health::follow_troubles(TimePoint now, HealthChanges& changes) {
  const auto kind = worst(now);
  if (!kind) {
    if (state_ == kSuspect && now - quiet_since_ >= policy_.suspect_time) {
      go(kHealthy, {}, now, changes);
    }
    return;
  }
  const std::string why = lasting(*kind)->why;
  const bool condemned = severity(*kind, now) == Severity::kCondemned;
  quiet_since_ = now;
  switch (state_) {
    case kHealthy:
      if (!condemned) {
        // A trouble that comes and goes counts each time that it comes.
        finding(Severity::kSuspect, why, now, changes);
        return;
      }
      go(kQuarantined, why, now, changes);
      return;
    case kSuspect:
      reason_ = why;
      if (condemned) go(kQuarantined, why, now, changes);
      return;
    case kQuarantined:
      reason_ = why;
      return;
    case kProbation:
      go(kQuarantined, why, now, changes);
      return;
    case kUnknown:
      return;
  }
}

void Health::go(HealthState to, const std::string& reason, TimePoint now, HealthChanges& changes) {
  const HealthState from = state_;
  if (to == kQuarantined) {
    ++quarantines_;
    quarantined_until_ = now + quarantine_of(quarantines_);
    strikes_.clear();
  }
  state_ = to;
  reason_ = reason;
  // A probe that fails in quarantine makes it longer and changes nothing else.
  if (from != to) changes.push_back({from, to, reason});
}

Duration Health::quarantine_of(std::uint32_t number) const {
  Duration time = policy_.quarantine_time;
  for (std::uint32_t i = 1; i < number && time < policy_.longest_quarantine; ++i) time *= 2;
  return std::min(time, std::max(policy_.longest_quarantine, policy_.quarantine_time));
}

Duration Health::next_quarantine() const { return quarantine_of(quarantines_ + 1); }

bool Health::wants_probe(TimePoint now) const {
  if (state_ == kProbation) return now >= next_probe_;
  return state_ == kQuarantined && now >= quarantined_until_ && !worst(now);
}

bool Health::is_unreachable() const {
  return lasting(Trouble::kLost) || lasting(Trouble::kSilent) || lasting(Trouble::kResetRequired);
}

bool Health::wants_new_questions(TimePoint now) const {
  return state_ == kQuarantined && is_unreachable() &&
         now >= std::max(quarantined_until_, next_questions_);
}

void Health::asked_anew(TimePoint now) {
  // Less and less often, because the others are asked anew with it.
  ++times_asked_;
  next_questions_ = now + quarantine_of(quarantines_ + times_asked_);
}

bool Health::has_trouble() const {
  return std::ranges::any_of(lasting_, [](const auto& one) { return one.has_value(); });
}

TimePoint Health::next_tick() const {
  switch (state_) {
    case kHealthy:
      return quarantines_ == 0 ? TimePoint::max() : quiet_since_ + policy_.forget_time;
    case kSuspect: {
      const auto& failing = lasting(Trouble::kFailing);
      if (failing) return failing->since + policy_.failing_time;
      return has_trouble() ? TimePoint::max() : quiet_since_ + policy_.suspect_time;
    }
    case kQuarantined:
      if (is_unreachable()) return std::max(quarantined_until_, next_questions_);
      // Other troubles end with a sample.
      return has_trouble() ? TimePoint::max() : quarantined_until_;
    case kProbation:
      return next_probe_;
    case kUnknown:
      break;
  }
  return TimePoint::max();
}

}  // namespace divvy::health
