// What happened in the queue since the daemon was started, and how it stands now, in numbers for
// monitoring. Nothing here decides anything. Tally counts up and never back; QueueLoad and UserLoad
// are made by jobs::Queue for whoever asks (Queue::load). Plain values without clock.
//
// Numbers of a queue are those of its jobs and of the jobs of all queues below it, as its quota is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "jobs/explain.h"
#include "model/job.h"

namespace divvy::jobs {

// Of each state so many.
class StateCounts {
 public:
  [[nodiscard]] std::uint64_t operator[](model::JobState state) const { return of_[place(state)]; }
  std::uint64_t& operator[](model::JobState state) { return of_[place(state)]; }
  friend bool operator==(const StateCounts&, const StateCounts&) = default;

 private:
  static constexpr std::size_t place(model::JobState state) {
    return static_cast<std::size_t>(state);
  }
  std::array<std::uint64_t, static_cast<std::size_t>(model::JobState::kCancelled) + 1> of_{};
};

// How long jobs waited from their submission until they ran for the first time, in buckets. The
// last one has no end.
struct WaitCounts {
  static constexpr std::array<std::uint32_t, 11> kEndsInSeconds = {
      1, 5, 15, 60, 300, 900, 3'600, 14'400, 43'200, 86'400, 259'200};

  std::array<std::uint64_t, kEndsInSeconds.size() + 1> buckets{};  // each counts its own alone
  double sum_s = 0;

  void add(Duration waited);
  friend bool operator==(const WaitCounts&, const WaitCounts&) = default;
};

class Tally {
 public:
  // Each user has numbers of their own, up to so many; who comes later is counted with the others
  // who do. A user that was told apart stays so, because a count must not go back.
  static constexpr std::size_t kMostUsers = 100;
  // Stands for them; no user can have that name.
  static constexpr std::string_view kOthers = "(others)";

  struct Past {
    StateCounts ended;
    WaitCounts waits;
    friend bool operator==(const Past&, const Past&) = default;
  };

  void know(const std::string& user);
  // Under which name they are counted.
  [[nodiscard]] std::string_view name_for(const std::string& user) const;

  void waited(std::string_view queue, Duration time);
  void ended(std::string_view queue, const std::string& user, model::JobState how);

  // Null: nothing happened there.
  [[nodiscard]] const Past* past(std::string_view queue) const;
  [[nodiscard]] const StateCounts& ended() const { return ended_; }
  // By the names they are counted under.
  [[nodiscard]] const std::map<std::string, StateCounts, std::less<>>& users() const {
    return users_;
  }

 private:
  StateCounts ended_;
  std::map<std::string, Past, std::less<>> queues_;
  std::map<std::string, StateCounts, std::less<>> users_;
};

struct QueueLoad {
  QueueReport report;
  StateCounts jobs;                // that have not ended
  std::optional<WallTime> oldest;  // when the job was submitted that waits the longest
  Tally::Past past;
};

struct UserLoad {
  std::string name;
  StateCounts jobs;
  Held held;
  StateCounts ended;
};

struct Load {
  // The first so many in the order of their paths.
  static constexpr std::size_t kMostQueues = 200;

  WallTime at;
  StateCounts jobs;
  StateCounts ended;
  std::size_t all_queues = 0;
  std::vector<QueueLoad> queues;
  std::vector<UserLoad> users;
};

}  // namespace divvy::jobs
