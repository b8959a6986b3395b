// What is remembered for a while and no longer: sign-ins that have begun, ID tokens that were used.
// Bounded, in all and for each caller, because strangers add to it. Thread-safe; the time is given.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::oidc {

template <typename T>
class Pending {
 public:
  // `most_of_caller` 0: as many as there may be.
  explicit Pending(std::size_t most, std::size_t most_of_caller = 0)
      : most_(most), most_of_caller_(most_of_caller) {}

  // Keys are hashes of secrets, or secrets of nobody: how long a look takes tells nothing.
  // kAlreadyExists for a key that is remembered, kUnavailable when there are too many.
  [[nodiscard]] Status add(const std::string& key, std::string caller, T value, TimePoint until,
                           TimePoint now) {
    const std::lock_guard lock(mutex_);
    if (entries_.contains(key) && entries_.at(key).until > now) {
      return err(ErrorCode::kAlreadyExists, "it was used already");
    }
    DIVVY_RETURN_IF_ERROR(make_room(caller, now));
    entries_.emplace(key, Entry{std::move(caller), std::move(value), until});
    return {};
  }

  // Whether add() would find room for one more of this caller.
  [[nodiscard]] Status check_room(const std::string& caller, TimePoint now) {
    const std::lock_guard lock(mutex_);
    return make_room(caller, now);
  }

  // Once: afterwards it is forgotten.
  [[nodiscard]] std::optional<T> take(const std::string& key, TimePoint now) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    Entry entry = std::move(found->second);
    entries_.erase(found);
    if (entry.until <= now) return std::nullopt;
    return std::move(entry.value);
  }

  // Calls `change` with what is remembered, under the lock, and gives a copy of it.
  [[nodiscard]] std::optional<T> update(const std::string& key, TimePoint now,
                                        const std::function<void(T&)>& change) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.until <= now) return std::nullopt;
    change(found->second.value);
    return found->second.value;
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::string caller;
    T value;
    TimePoint until;
  };

  [[nodiscard]] Status make_room(const std::string& caller, TimePoint now) {
    std::erase_if(entries_, [now](const auto& entry) { return entry.second.until <= now; });
    std::size_t of_caller = 0;
    if (most_of_caller_ > 0) {
      for (const auto& [key, entry] : entries_) of_caller += entry.caller == caller ? 1 : 0;
    }
    if (entries_.size() < most_ && (most_of_caller_ == 0 || of_caller < most_of_caller_)) return {};
    return err(ErrorCode::kUnavailable,
               "too many sign-ins have begun and not ended; try again in some minutes");
  }

  const std::size_t most_;
  const std::size_t most_of_caller_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace divvy::oidc
