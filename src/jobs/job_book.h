// The jobs that have not ended, and where those wait that may start: in line, until a pause is
// over, for other jobs, or for something that can no longer happen. Every change of a job's state
// goes through here, so that it is written down (take_changes), counted (Tally) and told to those
// who wait for it (Dependencies). jobs::Queue owns it; its parts change jobs through it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jobs/dependencies.h"
#include "jobs/job_line.h"
#include "jobs/queue_tree.h"
#include "jobs/shapes.h"
#include "jobs/tally.h"
#include "model/job.h"

namespace divvy::jobs {

// Where a queued job waits.
enum class Waits { kNowhere, kInLine, kLater, kForOthers, kInVain };

struct Entry {
  model::Job job;
  QueueId queue;
  UserId user;
  ShapeId shape = 0;
  std::uint32_t refusals = 0;  // starts in a row that somebody else was in the way of
  // Set by the book alone.
  Waits waits = Waits::kNowhere;
  bool passed = false;  // others passed it long enough: in its queue it comes before its equals
};

class JobBook {
 public:
  // --- Which there are ---

  Entry& insert(Entry entry);
  // References stay valid until the job is erased or forgotten.
  [[nodiscard]] Entry* find(model::JobId job);
  [[nodiscard]] const Entry* find(model::JobId job) const;
  [[nodiscard]] Entry& at(model::JobId job) { return entries_.at(job); }
  [[nodiscard]] const Entry& at(model::JobId job) const { return entries_.at(job); }
  // Null: it does not run, or in another attempt.
  [[nodiscard]] Entry* active(model::JobId job, std::uint32_t attempt);
  [[nodiscard]] const std::unordered_map<model::JobId, Entry>& entries() const { return entries_; }
  // In the order of their numbers.
  void for_each(const std::function<void(Entry&)>& change);
  // One that waits, as if it had never been there.
  void erase(Entry& entry);
  // One that has ended; otherwise, or where it is not known, false.
  bool forget(model::JobId job);

  // --- Where they wait ---

  void enqueue(Entry& entry, WallTime now);
  void dequeue(Entry& entry);
  // Those whose pause is over are in line again.
  void end_pauses(WallTime now);
  // The first whose pause ends.
  [[nodiscard]] std::optional<WallTime> next_pause_end() const;
  // One that waits for what can no longer happen; null: none does.
  [[nodiscard]] Entry* first_hopeless();
  // In its queue it comes before others of its priority, from now on until it leaves the line.
  void move_up(Entry& entry);
  // The line is sorted by what `change` may change.
  void change_in_line(Entry& entry, const std::function<void()>& change);
  // Queues and users have other numbers, which `change` gives to each job.
  void renumber(const std::function<void(Entry&)>& change);
  [[nodiscard]] const JobLine& line() const { return line_; }

  [[nodiscard]] const Dependencies& dependencies() const { return dependencies_; }
  // Jobs that have ended and that others wait for.
  void add_finished(std::span<const FinishedJob> finished);

  // --- What becomes of them ---

  void become(Entry& entry, model::JobState state, WallTime now, std::string reason);
  // The same for the end of a job: those who waited for it may start, or never will.
  void finish(Entry& entry, model::JobState state, WallTime now, std::string reason);
  // A line in its history, without another state.
  void note(Entry& entry, WallTime now, std::string text);
  // It has changed otherwise.
  void mark_changed(const Entry& entry) { changed_.insert(entry.job.id); }
  // In the order of their numbers.
  [[nodiscard]] std::vector<model::JobId> take_changes();

  [[nodiscard]] const Tally& tally() const { return tally_; }
  // How many entries its tables have.
  [[nodiscard]] std::size_t entries_kept() const;

 private:
  [[nodiscard]] std::vector<model::JobId> ids() const;
  void enter_line(Entry& entry);

  std::unordered_map<model::JobId, Entry> entries_;
  JobLine line_;
  std::set<std::pair<WallTime, model::JobId>> later_;
  std::set<model::JobId> hopeless_;
  Dependencies dependencies_;
  Tally tally_;
  std::set<model::JobId> changed_;
};

// "train (31)", or "job 31" for one without a name.
[[nodiscard]] std::string name_of(const model::Job& job);

}  // namespace divvy::jobs
