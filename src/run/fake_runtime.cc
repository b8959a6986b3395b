#include "run/fake_runtime.h"

#include <sys/eventfd.h>

namespace divvy::run {

FakeRuntime::FakeRuntime() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Status FakeRuntime::start(const MemberStart& member) {
  const std::lock_guard guard(mutex_);
  if (next_failure_) return err(*std::exchange(next_failure_, std::nullopt));
  if (members_.contains(member.key)) {
    return err(ErrorCode::kAlreadyExists, "{} was started before", to_string(member.key));
  }
  members_[member.key] = MemberReport{.key = member.key, .end = {}, .without = {}};
  started_.push_back(member);
  return {};
}

Result<std::vector<MemberReport>> FakeRuntime::find() {
  const std::lock_guard guard(mutex_);
  std::vector<MemberReport> result;
  result.reserve(members_.size());
  for (const auto& [key, report] : members_) result.push_back(report);
  return result;
}

Result<MemberReport> FakeRuntime::find(const MemberKey& key) {
  const std::lock_guard guard(mutex_);
  const auto found = members_.find(key);
  if (found == members_.end()) return err(ErrorCode::kNotFound, "no member {}", to_string(key));
  return found->second;
}

Status FakeRuntime::stop(const MemberKey& key, std::chrono::seconds grace) {
  DIVVY_CHECK_OK(find(key));
  const std::lock_guard guard(mutex_);
  stopped_[key] = grace;
  return {};
}

Status FakeRuntime::freeze(const MemberKey& key, bool /*frozen*/) {
  DIVVY_CHECK_OK(find(key));
  return {};
}

std::vector<MemberReport> FakeRuntime::changes() {
  const std::lock_guard guard(mutex_);
  std::uint64_t times = 0;
  (void)!::read(event_.get(), &times, sizeof times);
  std::vector<MemberReport> result;
  for (const MemberKey& key : std::exchange(changed_, {})) {
    if (members_.contains(key)) result.push_back(members_[key]);
  }
  return result;
}

Status FakeRuntime::forget(const MemberKey& key) {
  const std::lock_guard guard(mutex_);
  const auto found = members_.find(key);
  if (found == members_.end()) return err(ErrorCode::kNotFound, "no member {}", to_string(key));
  if (found->second.phase == MemberPhase::kLiving) {
    return err(ErrorCode::kFailedPrecondition, "{} lives; end it first", to_string(key));
  }
  members_.erase(found);
  return {};
}

void FakeRuntime::end(const MemberKey& key, model::MemberEnd end, MemberPhase phase) {
  const std::lock_guard guard(mutex_);
  MemberReport& report = members_[key];
  report.key = key;
  report.phase = phase;
  report.end = std::move(end);
  changed_.insert(key);
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);
}

void FakeRuntime::fail_next_start(Error error) {
  const std::lock_guard guard(mutex_);
  next_failure_ = std::move(error);
}

std::vector<MemberStart> FakeRuntime::started() const {
  const std::lock_guard guard(mutex_);
  return started_;
}

std::optional<std::chrono::seconds> FakeRuntime::stopped(const MemberKey& key) const {
  const std::lock_guard guard(mutex_);
  const auto found = stopped_.find(key);
  if (found == stopped_.end()) return std::nullopt;
  return found->second;
}

}  // namespace divvy::run
