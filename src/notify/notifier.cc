#include "notify/notifier.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace divvy::notify {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSenders = 4;
// The pause doubles from one try to the next, up to the longest.
constexpr Duration kFirstPause = 1s;
constexpr Duration kLongestPause = 10min;
// A message that was tried and is older than this is not tried again, however few its tries were:
// somebody with a slow receiver and many messages has them wait for each other.
constexpr Duration kOldest = 24h;
// After the disk did not take something.
constexpr Duration kRetry = 5s;
// The clock of the machine may be set; that is noticed within this time.
constexpr Duration kMostPatience = 1min;

constexpr int kGone = 410;

Duration pause_after(std::uint32_t tries) {
  return std::min<Duration>(kFirstPause * (std::int64_t{1} << std::min(tries - 1, 20U)),
                            kLongestPause);
}

// A job ends once, and with the moment no two daemons have the same.
std::string message_id(const store::NotificationRow& row) {
  return fmt::format("divvy-{}-{}", row.job.value(), row.ended.time_since_epoch().count());
}

// "*.example" stands for every name below it.
bool allows(const std::string& entry, const std::string& host) {
  if (entry.starts_with("*.")) return host.ends_with(to_lower(entry.substr(1)));
  return host == to_lower(entry);
}

Status check_host(const std::vector<std::string>& allowed, const model::WebhookUrl& url) {
  if (allowed.empty()) return {};
  const auto is_it = [&](const std::string& entry) { return allows(entry, url.host); };
  if (std::ranges::any_of(allowed, is_it)) return {};
  return err(ErrorCode::kPermissionDenied,
             "notify.url: no messages are sent to {} from here; notifications.allowed_hosts has {}",
             url.host, fmt::join(allowed, ", "));
}

}  // namespace

Notifier::Notifier(store::Database& database, const Clock& clock, Rules rules, Post send)
    : database_(database), clock_(clock), send_(std::move(send)), rules_(std::move(rules)) {}

Notifier::~Notifier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Notifier::begin() {
  for (std::size_t i = 0; i < kSenders; ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

void Notifier::run() {
  for (;;) {
    const Duration patience = std::min(step().value_or(kMostPatience), kMostPatience);
    std::unique_lock lock(mutex_);
    if (patience > 0s) changed_.wait_for(lock, patience, [this] { return stopping_ || woken_; });
    if (stopping_) return;
    woken_ = false;
  }
}

void Notifier::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Notifier::set_rules(Rules rules) {
  const std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
}

Status Notifier::check(const model::Notify& notify) const {
  DIVVY_TRY(url, with_context(model::WebhookUrl::parse(notify.url), "notify.url"));
  const std::lock_guard lock(mutex_);
  if (!rules_.enabled) {
    return err(ErrorCode::kPermissionDenied,
               "notify: this machine sends no messages (notifications.enabled); submit it without");
  }
  return check_host(rules_.allowed_hosts, url);
}

Notifier::Turn Notifier::look() {
  const std::lock_guard looking(looking_);
  const auto waiting = database_.read(
      [](store::Connection& connection) { return store::NotificationTable(connection).waiting(); });
  if (waiting) return next_turn(*waiting);
  log_error("notifications cannot be read", {{"reason", waiting.error().message}});
  return {.who = {}, .patience = kRetry};
}

std::optional<Duration> Notifier::step() {
  const Turn turn = look();
  if (!turn.who) return turn.patience;
  // Another thread looks whether there is somebody else, while this one waits for a receiver.
  wake();
  const Status kept = send_next(*turn.who);
  if (!kept) log_error("notification not kept", {{"reason", kept.error().message}});
  done(turn.who->owner, kept);
  return Duration(0);
}

Notifier::Turn Notifier::next_turn(const std::vector<Waiting>& waiting) {
  const WallTime now = clock_.wall_now();
  const TimePoint monotonic = clock_.now();
  Turn turn;
  const auto within = [&turn](Duration time) {
    turn.patience = turn.patience ? std::min(*turn.patience, time) : time;
  };
  const std::lock_guard lock(mutex_);
  std::erase_if(had_, [&](const auto& entry) {
    return std::ranges::find(waiting, entry.first, &Waiting::owner) == waiting.end();
  });
  std::erase_if(paused_, [&](const auto& entry) { return entry.second <= monotonic; });
  std::vector<const Waiting*> due;
  for (const Waiting& one : waiting) {
    if (busy_.contains(one.owner)) continue;  // whoever is at it looks again
    if (const auto paused = paused_.find(one.owner); paused != paused_.end()) {
      within(paused->second - monotonic);
    } else if (one.due > now) {
      within(one.due - now);
    } else {
      due.push_back(&one);
    }
  }
  std::ranges::sort(due, {}, [this](const Waiting* one) {
    const auto had = had_.find(one->owner);
    return had == had_.end() ? 0 : had->second;
  });
  for (const Waiting* const one : due) {
    if (!rate_.allow(one->owner, monotonic)) {
      within(Duration(1s) / kMostPerSecond);
      continue;
    }
    had_[one->owner] = ++turns_;
    busy_.insert(one->owner);
    turn.who = *one;
    return turn;
  }
  return turn;
}

void Notifier::done(const std::string& owner, const Status& kept) {
  const std::lock_guard lock(mutex_);
  busy_.erase(owner);
  if (!kept) paused_[owner] = clock_.now() + kRetry;
}

Status Notifier::send_next(const Waiting& who) {
  if (who.messages > kMostOfOneOwner) DIVVY_RETURN_IF_ERROR(forget_oldest(who));
  DIVVY_TRY(row, database_.read([&](store::Connection& connection) {
    return store::NotificationTable(connection).next(who.owner, clock_.wall_now());
  }));
  if (!row) return {};
  const auto url = model::WebhookUrl::parse(row->url);
  // What was allowed when the job was submitted need not be now.
  const Status allowed = check(model::Notify{.url = row->url});
  if (!url || !allowed) {
    log_warning("notification not sent",
                {{"job", row->job.value()}, {"reason", allowed.error().message}});
    return remove(row->job);
  }
  const auto status = send_(*url, {.id = message_id(*row), .body = row->body});
  if (!status) return keep_trying(*row, url->origin(), status.error().message);
  if (*status >= 200 && *status < 300) {
    log_debug("notification sent", {{"job", row->job.value()}, {"to", url->origin()}});
    return remove(row->job);
  }
  if (*status == kGone) {
    log_info("notification not wanted any more",
             {{"job", row->job.value()}, {"to", url->origin()}});
    return remove(row->job);
  }
  return keep_trying(*row, url->origin(), fmt::format("status {}", *status));
}

Status Notifier::keep_trying(const store::NotificationRow& row, const std::string& origin,
                             std::string_view why) {
  const std::uint32_t tries = row.tries + 1;
  const WallTime now = clock_.wall_now();
  if (tries >= kMostTries || now - row.ended > kOldest) {
    log_warning(
        "notification given up",
        {{"job", row.job.value()}, {"to", origin}, {"tries", tries}, {"reason", std::string(why)}});
    return remove(row.job);
  }
  log_debug("notification put off",
            {{"job", row.job.value()}, {"to", origin}, {"reason", std::string(why)}});
  return database_.commit([&](store::Connection& connection) {
    return store::NotificationTable(connection).put_off(row.job, tries, now + pause_after(tries));
  });
}

Status Notifier::forget_oldest(const Waiting& who) {
  std::uint64_t gone = 0;
  DIVVY_RETURN_IF_ERROR(database_.commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(removed, store::NotificationTable(connection).keep(who.owner, kMostOfOneOwner));
    gone = removed;
    return {};
  }));
  log_warning("notifications forgotten, their receiver is too slow",
              {{"user", who.owner}, {"messages", gone}});
  return {};
}

Status Notifier::remove(model::JobId job) {
  return database_.commit([&](store::Connection& connection) {
    return store::NotificationTable(connection).remove(job);
  });
}

}  // namespace divvy::notify
