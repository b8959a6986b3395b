#include "jobs/job_book.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace divvy::jobs {
namespace {

using model::JobState;

bool has_run(const model::Job& job) {
  return std::ranges::find(job.history, JobState::kRunning, &model::JobStep::state) !=
         job.history.end();
}

}  // namespace

std::string name_of(const model::Job& job) {
  if (job.spec.name.empty()) return fmt::format("job {}", job.id);
  return fmt::format("{} ({})", escape_for_terminal(job.spec.name), job.id);
}

// --- Which there are ---

Entry& JobBook::insert(Entry entry) {
  const model::JobId id = entry.job.id;
  const auto [found, is_new] = entries_.try_emplace(id, std::move(entry));
  DIVVY_CHECK(is_new, "job {} was submitted twice", id);
  dependencies_.add(found->second.job);
  tally_.know(found->second.job.owner);
  return found->second;
}

Entry* JobBook::find(model::JobId job) {
  const auto found = entries_.find(job);
  return found == entries_.end() ? nullptr : &found->second;
}

const Entry* JobBook::find(model::JobId job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? nullptr : &found->second;
}

Entry* JobBook::active(model::JobId job, std::uint32_t attempt) {
  Entry* const found = find(job);
  if (found == nullptr || !is_active(found->job.state) || found->job.attempt != attempt) {
    return nullptr;
  }
  return found;
}

std::vector<model::JobId> JobBook::ids() const {
  std::vector<model::JobId> ids;
  ids.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

void JobBook::for_each(const std::function<void(Entry&)>& change) {
  for (const model::JobId id : ids()) change(at(id));
}

void JobBook::erase(Entry& entry) {
  const model::JobId id = entry.job.id;
  dequeue(entry);
  entries_.erase(id);
  changed_.erase(id);
  dependencies_.forget(id);
}

bool JobBook::forget(model::JobId job) {
  Entry* const found = find(job);
  if (found == nullptr || !is_finished(found->job.state)) return false;
  const auto task = found->job.task;
  const std::vector<model::Dependency> after = std::move(found->job.spec.after);
  entries_.erase(job);
  changed_.erase(job);
  dependencies_.forget(job);
  if (task) dependencies_.forget(task->array);
  // It may have been the last one that waited for them.
  for (const model::Dependency& dependency : after) {
    if (!entries_.contains(dependency.job)) dependencies_.forget(dependency.job);
  }
  return true;
}

// --- Where they wait ---

void JobBook::enter_line(Entry& entry) {
  line_.add(entry.queue, entry.user, entry.job, entry.passed);
}

void JobBook::enqueue(Entry& entry, WallTime now) {
  switch (dependencies_.outlook(entry.job.spec).answer) {
    case Dependencies::Answer::kNever:
      entry.waits = Waits::kInVain;
      hopeless_.insert(entry.job.id);
      return;
    case Dependencies::Answer::kWaits:
      entry.waits = Waits::kForOthers;
      return;
    case Dependencies::Answer::kMet:
      break;
  }
  if (entry.job.not_before && *entry.job.not_before > now) {
    entry.waits = Waits::kLater;
    later_.emplace(*entry.job.not_before, entry.job.id);
    return;
  }
  entry.waits = Waits::kInLine;
  enter_line(entry);
}

void JobBook::dequeue(Entry& entry) {
  switch (entry.waits) {
    case Waits::kInLine:
      line_.remove(entry.queue, entry.user, entry.job, entry.passed);
      break;
    case Waits::kLater:
      later_.erase({*entry.job.not_before, entry.job.id});
      break;
    case Waits::kInVain:
      hopeless_.erase(entry.job.id);
      break;
    case Waits::kForOthers:
    case Waits::kNowhere:
      break;
  }
  entry.waits = Waits::kNowhere;
  entry.passed = false;
}

void JobBook::end_pauses(WallTime now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    Entry& entry = at(later_.begin()->second);
    dequeue(entry);
    enqueue(entry, now);
  }
}

std::optional<WallTime> JobBook::next_pause_end() const {
  return later_.empty() ? std::nullopt : std::optional(later_.begin()->first);
}

Entry* JobBook::first_hopeless() { return hopeless_.empty() ? nullptr : &at(*hopeless_.begin()); }

void JobBook::move_up(Entry& entry) {
  change_in_line(entry, [&entry] { entry.passed = true; });
}

void JobBook::change_in_line(Entry& entry, const std::function<void()>& change) {
  const bool in_line = entry.waits == Waits::kInLine;
  if (in_line) line_.remove(entry.queue, entry.user, entry.job, entry.passed);
  change();
  if (in_line) enter_line(entry);
}

void JobBook::renumber(const std::function<void(Entry&)>& change) {
  line_ = JobLine();
  for_each([&](Entry& entry) {
    change(entry);
    if (entry.waits == Waits::kInLine) enter_line(entry);
  });
}

void JobBook::add_finished(std::span<const FinishedJob> finished) {
  for (const FinishedJob& job : finished) dependencies_.add(job);
}

// --- What becomes of them ---

void JobBook::become(Entry& entry, JobState state, WallTime now, std::string reason) {
  if (state == JobState::kRunning && !has_run(entry.job)) {
    tally_.waited(entry.job.spec.queue, now - entry.job.submitted);
  }
  if (is_finished(state)) tally_.ended(entry.job.spec.queue, entry.job.owner, state);
  const Status done = entry.job.become(state, now, std::move(reason));
  DIVVY_CHECK(done.has_value(), "{}", done.error().message);
  mark_changed(entry);
}

void JobBook::finish(Entry& entry, JobState state, WallTime now, std::string reason) {
  become(entry, state, now, std::move(reason));
  for (const model::JobId id : dependencies_.finish(entry.job)) {
    Entry* const waiting = find(id);
    if (waiting == nullptr || waiting->waits != Waits::kForOthers) continue;
    dequeue(*waiting);
    enqueue(*waiting, now);
  }
}

void JobBook::note(Entry& entry, WallTime now, std::string text) {
  entry.job.history.push_back({now, entry.job.state, std::move(text)});
  mark_changed(entry);
}

std::vector<model::JobId> JobBook::take_changes() {
  std::vector<model::JobId> changes(changed_.begin(), changed_.end());
  changed_.clear();
  return changes;
}

std::size_t JobBook::entries_kept() const {
  return entries_.size() + hopeless_.size() + later_.size() + changed_.size() +
         dependencies_.size();
}

}  // namespace divvy::jobs
