#include "jobs/tally.h"

#include <algorithm>

namespace divvy::jobs {
namespace {

// "a/b/c", "a/b", "a"
template <typename Do>
void up_from(std::string_view queue, const Do& act) {
  while (!queue.empty()) {
    act(queue);
    const std::size_t slash = queue.rfind('/');
    queue = slash == std::string_view::npos ? std::string_view() : queue.substr(0, slash);
  }
}

template <typename Value>
Value& entry(std::map<std::string, Value, std::less<>>& table, std::string_view key) {
  const auto found = table.find(key);
  return found != table.end() ? found->second : table.emplace(key, Value()).first->second;
}

}  // namespace

// A clock that was set back counts as no wait at all.
void WaitCounts::add(Duration waited) {
  const double seconds = std::max(std::chrono::duration<double>(waited).count(), 0.0);
  ++buckets[static_cast<std::size_t>(std::ranges::lower_bound(kEndsInSeconds, seconds) -
                                     kEndsInSeconds.begin())];
  sum_s += seconds;
}

void Tally::know(const std::string& user) {
  if (users_.contains(user)) return;
  const std::size_t told_apart = users_.size() - users_.count(kOthers);
  entry(users_, told_apart < kMostUsers ? std::string_view(user) : kOthers);
}

std::string_view Tally::name_for(const std::string& user) const {
  return users_.contains(user) ? std::string_view(user) : kOthers;
}

void Tally::waited(std::string_view queue, Duration time) {
  up_from(queue, [&](std::string_view path) { entry(queues_, path).waits.add(time); });
}

void Tally::ended(std::string_view queue, const std::string& user, model::JobState how) {
  ++ended_[how];
  ++entry(users_, name_for(user))[how];
  up_from(queue, [&](std::string_view path) { ++entry(queues_, path).ended[how]; });
}

const Tally::Past* Tally::past(std::string_view queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? nullptr : &found->second;
}

}  // namespace divvy::jobs
