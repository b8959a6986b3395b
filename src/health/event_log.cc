#include "health/event_log.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "base/log.h"

namespace divvy::health {
namespace {

void ring(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  (void)!::write(fd.get(), &one, sizeof one);
}

LogLevel level_of(const Event& event) {
  const bool bad = event.state == "quarantined" || event.kind == EventKind::kProbe;
  return bad ? LogLevel::kWarning : LogLevel::kInfo;
}

}  // namespace

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kHealth:
      return "health";
    case EventKind::kXid:
      return "xid";
    case EventKind::kProbe:
      return "probe";
    case EventKind::kCordon:
      return "cordon";
    case EventKind::kDrain:
      return "drain";
    case EventKind::kUncordon:
      return "uncordon";
    case EventKind::kDrained:
      return "drained";
    case EventKind::kTenant:
      return "tenant";
    case EventKind::kSampler:
      return "sampler";
  }
  return "unknown";
}

void EventLog::add(Event event) {
  log(level_of(event), "event",
      {{"kind", to_string(event.kind)},
       {"gpu", event.gpu ? fmt::format("{}", *event.gpu) : "-"},
       {"tenant", event.tenant.empty() ? "-" : event.tenant},
       {"state", event.state.empty() ? "-" : event.state},
       {"reason", event.reason}});
  const std::lock_guard lock(mutex_);
  event.number = ++last_;
  event.time = clock_.wall_now();
  events_.push_back(std::move(event));
  if (events_.size() > kKept) events_.pop_front();
  for (const Waiting& one : waiting_) {
    const auto ready = one.ready.lock();
    if (ready && one.number < last_) ring(*ready);
  }
  std::erase_if(waiting_,
                [this](const Waiting& one) { return one.ready.expired() || one.number < last_; });
}

std::vector<Event> EventLog::since(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto first = std::ranges::upper_bound(events_, number, {}, &Event::number);
  return {first, events_.end()};
}

std::uint64_t EventLog::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::shared_ptr<const UniqueFd> EventLog::when_after(std::uint64_t number) {
  auto ready = std::make_shared<const UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const std::lock_guard lock(mutex_);
  if (number < last_) {
    ring(*ready);
  } else {
    waiting_.push_back({number, ready});
  }
  return ready;
}

}  // namespace divvy::health
