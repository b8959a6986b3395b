#include "health/health_board.h"

#include <algorithm>

#include "health/xid_policy.h"

namespace divvy::health {
namespace {

// A program that goes wrong in a loop would otherwise fill the log with one sentence.
constexpr Duration kToldAgainAfter = std::chrono::minutes(1);
constexpr std::size_t kMostTold = 64;

}  // namespace

HealthBoard::HealthBoard(const HealthSettings& settings, const std::vector<WatchedGpu>& gpus,
                         const Clock& clock)
    : settings_(settings), clock_(clock) {
  for (const WatchedGpu& gpu : gpus) {
    Ward ward{.gpu = gpu, .health = Health(settings.policy, clock.now())};
    ward.since = clock.wall_now();
    if (!gpu.out_of_order.empty()) {
      note(ward, ward.health.trouble(Trouble::kResetRequired, gpu.out_of_order, clock.now()));
    }
    wards_.push_back(std::move(ward));
  }
  sampler_started();
}

HealthBoard::Ward* HealthBoard::find(const model::GpuUuid& gpu) {
  const auto found =
      std::ranges::find_if(wards_, [&gpu](const Ward& ward) { return ward.gpu.uuid == gpu; });
  return found == wards_.end() ? nullptr : &*found;
}

void HealthBoard::sampler_started() {
  sampler_since_ = clock_.now();
  for (Ward& ward : wards_) ward.answer_by = sampler_since_ + settings_.answer_time;
}

void HealthBoard::heard(const SamplerMessage& message) {
  const model::GpuUuid& uuid = std::visit(
      [](const auto& one) -> const model::GpuUuid& {
        if constexpr (requires { one.sample; }) {
          return one.sample.uuid;
        } else {
          return one.uuid;
        }
      },
      message);
  if (Ward* ward = find(uuid)) {
    std::visit([this, ward](const auto& one) { hear(*ward, one); }, message);
  }
}

void HealthBoard::has_answered(Ward& ward, std::chrono::milliseconds next) {
  ward.answer_by = clock_.now() + next + settings_.answer_time;
  ward.silent = false;
  ward.given_up = false;
}

void HealthBoard::hear(Ward& ward, const SampleMessage& message) {
  has_answered(ward, message.next);
  note(ward, ward.health.sample(message.sample, clock_.now()));
}

void HealthBoard::hear(Ward& ward, const XidMessage& message) {
  const XidRule rule = judge_xid(message.number);
  const TimePoint now = clock_.now();
  const bool ours = rule.verdict == XidVerdict::kSuspect || rule.verdict == XidVerdict::kCondemned;
  const auto told = ward.told.find(message.number);
  if (ours || told == ward.told.end() || now - told->second >= kToldAgainAfter) {
    if (ward.told.size() >= kMostTold) ward.told.clear();
    ward.told[message.number] = now;
    std::string words = describe_xid(message.number);
    if (rule.verdict == XidVerdict::kApplication) {
      words += " (an application's mistake; the GPU stays in use)";
    }
    news_.push_back(about(ward, EventKind::kXid, std::move(words)));
  }
  note(ward, ward.health.xid(message.number, now));
}

void HealthBoard::hear(Ward& ward, const FailedMessage& message) {
  has_answered(ward, message.next);
  const TimePoint now = clock_.now();
  switch (message.kind) {
    case FailedMessage::Kind::kLost:
      note(ward,
           ward.health.trouble(
               Trouble::kLost,
               message.words + ": it fell off the bus; reset it or restart the machine", now));
      return;
    case FailedMessage::Kind::kResetRequired:
      note(ward, ward.health.trouble(Trouble::kResetRequired, message.words, now));
      return;
    case FailedMessage::Kind::kError:
      note(ward, ward.health.trouble(Trouble::kFailing,
                                     "questions to the driver fail: " + message.words, now));
      return;
  }
}

void HealthBoard::probe_started(const model::GpuUuid& gpu) {
  if (Ward* ward = find(gpu)) ward->probing = true;
}

void HealthBoard::probe_ended(const model::GpuUuid& gpu, const ProbeResult& result) {
  Ward* ward = find(gpu);
  if (ward == nullptr) return;
  ward->probing = false;
  const HealthChanges changes = ward->health.probed(result, clock_.now());
  if (result.outcome != ProbeResult::Outcome::kPassed && changes.empty()) {
    ward->changed = true;  // The reason did.
    news_.push_back(about(*ward, EventKind::kProbe, ward->health.reason()));
  }
  note(*ward, changes);
}

bool HealthBoard::set_cordon(const model::GpuUuid& gpu, std::optional<model::Cordon> cordon) {
  Ward* ward = find(gpu);
  if (ward == nullptr) return false;
  if (ward->cordon == cordon) return true;
  const EventKind kind = !cordon            ? EventKind::kUncordon
                         : cordon->draining ? EventKind::kDrain
                                            : EventKind::kCordon;
  news_.push_back(about(*ward, kind, cordon ? cordon->reason : std::string()));
  ward->cordon = std::move(cordon);
  ward->changed = true;
  return true;
}

void HealthBoard::listen_for_silence(Ward& ward) {
  const TimePoint now = clock_.now();
  if (!ward.silent && now >= ward.answer_by) {
    ward.silent = true;
    ward.given_up_at = now + settings_.answer_time;
    note(ward, ward.health.trouble(Trouble::kSilent, "does not answer", now));
  }
  if (ward.silent && !ward.given_up && now >= ward.given_up_at) {
    ward.given_up = true;
    note(ward, ward.health.given_up(now));
  }
}

bool HealthBoard::sampler_is_stuck() const {
  // One GPU that is silent is in trouble; when all are, it may as well be the process.
  const bool all_silent = std::ranges::all_of(wards_, &Ward::silent);
  const bool hopeless = std::ranges::all_of(wards_, &Ward::given_up);
  return all_silent && !hopeless && clock_.now() - sampler_since_ >= settings_.answer_time;
}

HealthBoard::Todo HealthBoard::tick() {
  const TimePoint now = clock_.now();
  Todo todo;
  for (Ward& ward : wards_) {
    listen_for_silence(ward);
    note(ward, ward.health.tick(now));
    if (ward.health.wants_new_questions(now)) {
      ward.health.asked_anew(now);
      todo.new_sampler = true;
    }
    if (!ward.probing && ward.health.wants_probe(now)) todo.probes.push_back(ward.gpu.uuid);
  }
  if (!wards_.empty() && sampler_is_stuck()) todo.new_sampler = true;
  for (const Ward& ward : wards_) {
    if (!ward.silent) todo.next = std::min(todo.next, ward.answer_by);
    if (ward.silent && !ward.given_up) todo.next = std::min(todo.next, ward.given_up_at);
    // A probe that runs, or that is about to be started, ends with a call.
    const bool waits_for_probe = ward.probing || ward.health.wants_probe(now);
    if (!waits_for_probe) todo.next = std::min(todo.next, ward.health.next_tick());
  }
  return todo;
}

void HealthBoard::note(Ward& ward, const HealthChanges& changes) {
  for (const HealthChange& change : changes) {
    ward.changed = true;
    ward.since = clock_.wall_now();
    Event event = about(ward, EventKind::kHealth, change.reason);
    event.state = to_string(change.to);
    if (event.reason.empty()) event.reason = "nothing is wrong with it any more";
    news_.push_back(std::move(event));
  }
}

Event HealthBoard::about(const Ward& ward, EventKind kind, std::string reason) {
  Event event;
  event.kind = kind;
  event.gpu = ward.gpu.index;
  event.uuid = ward.gpu.uuid;
  event.state = to_string(ward.health.state());
  event.reason = std::move(reason);
  return event;
}

GpuHealth HealthBoard::shown(const Ward& ward) {
  GpuHealth health{.uuid = ward.gpu.uuid,
                   .state = ward.health.state(),
                   .reason = ward.health.reason(),
                   .since = ward.since};
  if (ward.cordon) {
    health.cordoned = true;
    health.draining = ward.cordon->draining;
    health.cordon_reason = ward.cordon->reason;
  }
  return health;
}

std::vector<GpuHealth> HealthBoard::all() const {
  std::vector<GpuHealth> result;
  result.reserve(wards_.size());
  for (const Ward& ward : wards_) result.push_back(shown(ward));
  return result;
}

std::vector<GpuHealth> HealthBoard::take_changed() {
  std::vector<GpuHealth> result;
  for (Ward& ward : wards_) {
    if (!std::exchange(ward.changed, false)) continue;
    result.push_back(shown(ward));
  }
  return result;
}

}  // namespace divvy::health
