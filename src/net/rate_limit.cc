#include "net/rate_limit.h"

#include <algorithm>

namespace divvy::net {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

}  // namespace

bool RateLimit::allow(const std::string& who, TimePoint now) {
  if (per_second_ == 0) return true;
  const Duration price = kSecond / per_second_;
  const std::lock_guard lock(mutex_);
  if (buckets_.size() >= kMostCallers && !buckets_.contains(who)) make_room(now);
  TimePoint& full_at = buckets_.try_emplace(who, Bucket{now}).first->second.full_at;
  const TimePoint next = std::max(full_at, now) + price;
  if (next > now + kSecond) return false;
  full_at = next;
  return true;
}

void RateLimit::make_room(TimePoint now) {
  std::erase_if(buckets_, [now](const auto& entry) { return entry.second.full_at <= now; });
  if (buckets_.size() >= kMostCallers) buckets_.clear();
}

std::size_t RateLimit::remembered() const {
  const std::lock_guard lock(mutex_);
  return buckets_.size();
}

}  // namespace divvy::net
