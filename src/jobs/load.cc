#include "jobs/load.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace divvy::jobs {
namespace {

using model::JobState;

std::vector<QueueLoad> load_of_queues(const QueueView& view) {
  const QueueTree& tree = view.tree;
  std::vector<QueueLoad> loads(tree.size());
  for (const auto& [id, entry] : view.book.entries()) {
    const model::Job& job = entry.job;
    if (is_finished(job.state)) continue;
    for (QueueId i = entry.queue; i != QueueTree::root(); i = tree.parent(i)) {
      QueueLoad& load = loads[i.value()];
      ++load.jobs[job.state];
      if (job.state != JobState::kQueued) continue;
      load.oldest = std::min(load.oldest.value_or(job.submitted), job.submitted);
    }
  }
  for (std::uint32_t i = 1; i < tree.size(); ++i) {
    const QueueId queue(i);
    const QueueSettings& settings = tree.settings(queue);
    QueueReport& report = loads[i].report;
    report.path = settings.path;
    report.quota = settings.quota;
    report.may_borrow = settings.may_borrow;
    report.most_share = settings.most_share;
    report.weight = settings.weight;
    report.time = tree.time(queue);
    report.held = tree.held(queue);
    const std::uint64_t promised = settings.quota.share.value_or(Share(0)).thousandths();
    report.borrowed = report.held.share > promised ? report.held.share - promised : 0;
    report.waiting = static_cast<std::uint32_t>(loads[i].jobs[JobState::kQueued]);
    report.used_gpu_hours = view.shares.used(queue) / Share::kWhole / 3'600;
    report.score = view.shares.score(tree, queue);
  }
  loads.erase(loads.begin());  // the root
  std::ranges::sort(loads, {},
                    [](const QueueLoad& load) -> const std::string& { return load.report.path; });
  return loads;
}

}  // namespace

std::vector<QueueReport> queue_reports(const QueueView& view) {
  std::vector<QueueReport> reports;
  for (QueueLoad& queue : load_of_queues(view)) reports.push_back(std::move(queue.report));
  return reports;
}

std::vector<UserReport> user_reports(const QueueTree& tree) {
  std::vector<UserReport> reports;
  reports.reserve(tree.users());
  for (std::uint32_t i = 0; i < tree.users(); ++i) {
    reports.push_back({tree.user_name(UserId(i)), tree.most(UserId(i)), tree.held_by(UserId(i))});
  }
  std::ranges::sort(reports, {}, &UserReport::name);
  return reports;
}

Load load_of(const QueueView& view, WallTime now) {
  const Tally& tally = view.book.tally();
  Load result;
  result.at = now;
  result.ended = tally.ended();
  result.queues = load_of_queues(view);
  result.all_queues = result.queues.size();
  result.queues.resize(std::min(result.queues.size(), Load::kMostQueues));
  for (QueueLoad& queue : result.queues) {
    if (const Tally::Past* const past = tally.past(queue.report.path)) queue.past = *past;
  }
  std::map<std::string_view, UserLoad> users;
  for (const auto& [name, ended] : tally.users()) users[name].ended = ended;
  std::vector<UserLoad*> user_of(view.tree.users());
  for (std::uint32_t i = 0; i < view.tree.users(); ++i) {
    const Held& held = view.tree.held_by(UserId(i));
    const auto found = users.find(tally.name_for(view.tree.user_name(UserId(i))));
    if (found == users.end()) continue;  // has limits, and never had a job
    user_of[i] = &found->second;
    found->second.held += held;
  }
  for (const auto& [id, entry] : view.book.entries()) {
    if (is_finished(entry.job.state)) continue;
    ++result.jobs[entry.job.state];
    ++user_of[entry.user.value()]->jobs[entry.job.state];
  }
  for (auto& [name, user] : users) {
    user.name = name;
    result.users.push_back(std::move(user));
  }
  return result;
}

}  // namespace divvy::jobs
