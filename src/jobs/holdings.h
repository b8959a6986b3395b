// What the active jobs hold: of the fleet, where their members are, and in the tree of queues,
// where quotas count it. The one place that takes from either and gives back. jobs::Queue owns it;
// jobs::Attempts tells it who begins and ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/fleet_view.h"
#include "jobs/job_book.h"
#include "jobs/queue_tree.h"
#include "model/gpu_mode.h"

namespace divvy::jobs {

struct Holding {
  explicit Holding(const Entry& entry_) : entry(&entry_) {}

  const Entry* entry;  // in the book, where it stays while it is active
  Held held;
  std::vector<place::HoldingId> places;  // what of it is known to be on the fleet
  std::set<std::uint32_t> started;       // ranks
  std::optional<WallTime> stop_by;       // while it is stopping

  [[nodiscard]] const model::Job& job() const { return entry->job; }
};

class Holdings {
 public:
  // Both outlive it.
  Holdings(FleetView& fleet, QueueTree& tree) : fleet_(fleet), tree_(tree) {}

  // Books what the members of a job hold, as far as the fleet has it.
  void add(const Entry& entry);
  void remove(const Entry& entry);
  // Its priority or its limits are others now. Nothing happens where it is not active.
  void take_places_anew(const Entry& entry);
  // The fleet is another one, on which nobody holds anything.
  void take_all_places();
  // The tree is another one, in which nobody holds anything.
  void charge_all();
  // A member has other slices now. False, with nothing changed: they are not free.
  [[nodiscard]] bool move(model::Job& job, const model::JobMember& to);

  // A member holds nothing any more.
  void drop_member(model::Job& job, std::uint32_t rank);
  // One that runs, at a rank that nobody has, or the next one.
  void add_member(model::Job& job, model::JobMember member);

  // How many have started.
  std::size_t member_started(model::JobId job, std::uint32_t rank);
  void set_stop_by(model::JobId job, WallTime time) { jobs_.at(job).stop_by = time; }

  // In the order of their numbers.
  [[nodiscard]] const std::map<model::JobId, Holding>& jobs() const { return jobs_; }
  [[nodiscard]] const Holding& at(model::JobId job) const { return jobs_.at(job); }
  // Null: it is not active.
  [[nodiscard]] const Holding* find(model::JobId job) const;
  // As many tasks of its array are active as may be.
  [[nodiscard]] bool array_is_full(const model::Job& job) const;
  // On a GPU that rests: who leaves it makes room for nobody.
  [[nodiscard]] bool rests(const Holding& holding) const;
  // A GPU is in one mode at a time: those that jobs of another mode hold.
  [[nodiscard]] std::set<std::string> gpus_not_in(model::GpuMode mode) const;
  // How many entries its tables have.
  [[nodiscard]] std::size_t entries_kept() const { return jobs_.size() + arrays_.size(); }

 private:
  void take_places(Holding& holding);
  void leave_places(Holding& holding);
  void charge_anew(Holding& holding);

  FleetView& fleet_;
  QueueTree& tree_;
  std::map<model::JobId, Holding> jobs_;
  std::size_t mps_ = 0;                           // jobs that named that mode
  std::map<model::JobId, std::uint32_t> arrays_;  // active tasks
};

}  // namespace divvy::jobs
