// Jobs that are submitted at times that come again. The store has all of it; each run is submitted
// with a key of its own (the schedule and the moment), so a daemon that was killed between two
// steps submits none twice.
//
// One thread waits for the next time. The other methods may be called from any thread; changes are
// on the disk when they return. No lock is held over the store or the dispatcher.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "control/dispatcher.h"
#include "control/schedule.h"
#include "store/database.h"
#include "store/schedule_table.h"

namespace divvy::control {

class Schedules {
 public:
  static constexpr std::size_t kMostOfOneOwner = 200;

  struct Parts {
    store::Database& database;
    Dispatcher& dispatcher;
    const Clock& clock;
  };
  // What `parts` refers to outlives it.
  explicit Schedules(Parts parts) : parts_(parts) {}
  ~Schedules();
  Schedules(const Schedules&) = delete;
  Schedules& operator=(const Schedules&) = delete;

  // In a thread of its own from now on. Otherwise a test calls step().
  void begin();

  // Also asks whether such a job could run.
  [[nodiscard]] Result<Schedule> make(NewSchedule wanted, const std::string& owner);
  using Change = std::function<Status(Schedule&, WallTime)>;
  // `change` may be called again, where somebody else was quicker.
  [[nodiscard]] Result<Schedule> change(const std::string& name, const Change& change);
  // kNotFound.
  [[nodiscard]] Result<Schedule> find(const std::string& name);
  // `check` refuses it, and sees the one that is removed: another one of that name may have come.
  using Check = std::function<Status(const Schedule&)>;
  [[nodiscard]] Result<Schedule> remove(const std::string& name, const Check& check);
  [[nodiscard]] Result<std::vector<Schedule>> list();

  // Submits what is due; how long until it is to be called again. Nothing: until something changes.
  [[nodiscard]] std::optional<Duration> step();

 private:
  struct Entry {
    Schedule schedule;
    std::int64_t revision = 0;
  };

  void run();
  void wake();
  [[nodiscard]] Result<std::vector<Entry>> read_all();
  [[nodiscard]] Result<std::optional<Entry>> read(const std::string& name);
  [[nodiscard]] Result<bool> write(const Entry& entry);
  // The job of a run.
  [[nodiscard]] static model::JobSpec run_of(const Schedule& schedule);
  // A job of the last run that another run has to wait for. Nothing: there is none.
  [[nodiscard]] std::optional<model::JobId> still_running(const Schedule& schedule);
  // Whose requests are refused by now has nothing run in their name either.
  [[nodiscard]] Result<bool> is_disabled(const std::string& owner);
  void submit(Schedule& schedule, const DueRun& run, WallTime now);

  Parts parts_;
  std::optional<WallTime> last_step_;  // of the thread that calls step()

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool woken_ = true;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace divvy::control
