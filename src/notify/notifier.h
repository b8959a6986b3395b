// Sends the messages that wait in the store (store/notification_table.h) to the webhooks that the
// owners of jobs named. A message leaves the store once its receiver has taken it, so a daemon that
// is killed in between sends it again with the same id, and loses none.
//
// A few threads send; each user has one of them at a time and so many messages a second, so that
// neither a slow receiver nor a user with many messages keeps others waiting. They look at the
// store one after the other; no lock is held over the network. The methods may be called from any
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/notify.h"
#include "net/rate_limit.h"
#include "notify/webhook.h"
#include "store/database.h"
#include "store/notification_table.h"

namespace divvy::notify {

class Notifier {
 public:
  // Tries of one message; with the pauses between them about an hour.
  static constexpr std::uint32_t kMostTries = 15;
  // Of one user that wait; the oldest go.
  static constexpr std::uint64_t kMostOfOneOwner = 20'000;
  static constexpr std::uint32_t kMostPerSecond = 10;  // of one user

  struct Rules {
    bool enabled = true;
    std::vector<std::string> allowed_hosts;  // "hooks.example", "*.example"; empty: any
  };
  using Post = std::function<Result<int>(const model::WebhookUrl& url, const Message& message)>;

  // What it refers to outlives it.
  Notifier(store::Database& database, const Clock& clock, Rules rules, Post send = post);
  // Waits for the messages that are on their way.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // In threads of its own from now on. Otherwise a test calls step().
  void begin();
  void set_rules(Rules rules);
  // Whether such messages are sent here.
  [[nodiscard]] Status check(const model::Notify& notify) const;
  // There may be something to send.
  void wake();

  // Sends one message, if one is due; how long until it is to be called again. Nothing: until
  // something changes.
  [[nodiscard]] std::optional<Duration> step();

 private:
  using Waiting = store::NotificationTable::Waiting;

  void run();
  // Whose turn it is: theirs until done(). Otherwise how long it will be.
  struct Turn {
    std::optional<Waiting> who;
    std::optional<Duration> patience;
  };
  [[nodiscard]] Turn look();
  [[nodiscard]] Turn next_turn(const std::vector<Waiting>& waiting);
  void done(const std::string& owner, const Status& kept);
  [[nodiscard]] Status send_next(const Waiting& who);
  [[nodiscard]] Status forget_oldest(const Waiting& who);
  [[nodiscard]] Status keep_trying(const store::NotificationRow& row, const std::string& origin,
                                   std::string_view why);
  [[nodiscard]] Status remove(model::JobId job);

  store::Database& database_;
  const Clock& clock_;
  const Post send_;
  net::RateLimit rate_{kMostPerSecond};

  std::mutex looking_;        // before mutex_: one connection to the store is enough for looks
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  Rules rules_;
  std::set<std::string> busy_;                // owners of whom a message is on its way
  std::map<std::string, TimePoint> paused_;   // owners whose message could not be written down
  std::map<std::string, std::uint64_t> had_;  // of owners that have messages: their last turn
  std::uint64_t turns_ = 0;
  bool woken_ = true;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace divvy::notify
