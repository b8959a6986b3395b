// The health of one GPU as a state machine:
//
//   healthy -> suspect -> quarantined -> probation -> healthy
//
// docs/health.md has all the arrows. Facts go in with the time at which they were learnt; what
// comes out is the state, the reason, and what to do next (look with a probe, ask anew). Pure: no
// clock, no I/O, no thread. Each input answers with the changes it caused.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "health/gpu_sample.h"
#include "health/health_state.h"

namespace divvy::health {

struct HealthPolicy {
  // A suspect GPU that shows nothing for so long is healthy again.
  Duration suspect_time = std::chrono::seconds(60);
  // Questions that fail for so long make of a suspect GPU a quarantined one.
  Duration failing_time = std::chrono::seconds(60);
  // So many troubles within the time do the same, whatever they were.
  std::uint32_t strikes = 3;
  Duration strike_window = std::chrono::minutes(10);
  // Until the first look after a quarantine began; twice as long each time, up to the longest.
  Duration quarantine_time = std::chrono::seconds(60);
  Duration longest_quarantine = std::chrono::hours(1);
  // Without any trouble for so long, earlier quarantines count no more.
  Duration forget_time = std::chrono::hours(6);
  // Probes that a GPU has to pass in probation, and how far they are apart.
  std::uint32_t probation_probes = 3;
  Duration probation_interval = std::chrono::seconds(10);
  // At or over the slowdown temperature for so long is too hot, until it is cooler by the margin.
  Duration hot_time = std::chrono::seconds(10);
  std::uint32_t hot_margin_c = 5;
  // Count for nothing on this machine.
  std::vector<std::uint32_t> ignored_xids = {};
};

// Lasting troubles: each begins and ends, and while one lasts the GPU is not healthy.
enum class Trouble : std::uint8_t {
  kLost,           // Fallen off the bus
  kResetRequired,  // The driver says so
  kRemapFailed,    // A broken memory row has no spare
  kSilent,         // Questions about it do not come back
  kFailing,        // Questions about it come back with errors
  kRemapPending,   // A broken memory row is replaced at the next reset
  kHot,
};
constexpr std::size_t kTroubles = 7;

struct HealthChange {
  HealthState from = HealthState::kHealthy;
  HealthState to = HealthState::kHealthy;
  std::string reason;
};
using HealthChanges = std::vector<HealthChange>;

struct ProbeResult {
  enum class Outcome : std::uint8_t { kPassed, kFailed, kHung };
  Outcome outcome = Outcome::kPassed;
  std::string why;  // Of a failure
};

class Health {
 public:
  Health(const HealthPolicy& policy, TimePoint now) : policy_(policy), quiet_since_(now) {}

  // An answer to the questions: it is neither lost, nor silent, nor failing.
  HealthChanges sample(const GpuSample& sample, TimePoint now);
  HealthChanges xid(std::uint64_t number, TimePoint now);
  // kLost, kResetRequired, kSilent or kFailing; the others are seen in samples. They end with the
  // next sample.
  HealthChanges trouble(Trouble kind, std::string_view why, TimePoint now);
  // It has been silent for so long that there is no hope.
  HealthChanges given_up(TimePoint now);
  HealthChanges probed(const ProbeResult& result, TimePoint now);
  // Time has passed.
  HealthChanges tick(TimePoint now);

  [[nodiscard]] HealthState state() const { return state_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  // To be probed now. Stays until probed() is called.
  [[nodiscard]] bool wants_probe(TimePoint now) const;
  // Quarantined for long enough, but still lost or silent: ask the driver anew, then asked_anew().
  [[nodiscard]] bool wants_new_questions(TimePoint now) const;
  void asked_anew(TimePoint now);
  // When tick() may have something to do; TimePoint::max() for never.
  [[nodiscard]] TimePoint next_tick() const;
  // How long a quarantine that begins now would last.
  [[nodiscard]] Duration next_quarantine() const;

 private:
  struct Lasting {
    std::string why;
    TimePoint since;
    bool hopeless = false;
  };
  enum class Severity : std::uint8_t { kNone, kSuspect, kCondemned };

  std::optional<Lasting>& lasting(Trouble kind) { return lasting_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const std::optional<Lasting>& lasting(Trouble kind) const {
    return lasting_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] Severity severity(Trouble kind, TimePoint now) const;
  [[nodiscard]] std::optional<Trouble> worst(TimePoint now) const;
  [[nodiscard]] bool has_trouble() const;
  // Nobody can tell whether it is back without asking anew.
  [[nodiscard]] bool is_unreachable() const;
  void set(Trouble kind, bool present, std::string_view why, TimePoint now);
  void look_at_temperature(const GpuSample& sample, TimePoint now);
  void look_at_memory(const GpuSample& sample, TimePoint now, HealthChanges& changes);
  // Something that happened once.
  void finding(Severity severity, const std::string& why, TimePoint now, HealthChanges& changes);
  void strike(TimePoint now);
  void follow_troubles(TimePoint now, HealthChanges& changes);
  void go(HealthState to, const std::string& reason, TimePoint now, HealthChanges& changes);
  [[nodiscard]] Duration quarantine_of(std::uint32_t number) const;

  HealthPolicy policy_;
  HealthState state_ = HealthState::kHealthy;
  std::string reason_;
  std::array<std::optional<Lasting>, kTroubles> lasting_;
  TimePoint quiet_since_;  // No trouble and no finding since
  std::deque<TimePoint> strikes_;
  std::uint32_t quarantines_ = 0;    // That are not forgotten
  TimePoint quarantined_until_;      // While quarantined
  TimePoint next_questions_;         // Not asked anew before then
  std::uint32_t times_asked_ = 0;    // Anew, since it answered last
  std::uint32_t probes_passed_ = 0;  // In this probation
  TimePoint next_probe_;             // In probation
  std::optional<TimePoint> hot_since_;
  std::optional<std::uint64_t> uncorrected_errors_;  // At the last sample that told
};

}  // namespace divvy::health
