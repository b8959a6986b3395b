#include "jobs/job_check.h"

#include "base/counted.h"
#include "base/text.h"
#include "model/seconds.h"

namespace divvy::jobs {

Status check_priority(const QueueTree& tree, QueueId queue, std::int32_t priority) {
  DIVVY_RETURN_IF_ERROR(model::check_priority(priority));
  const QueueSettings& settings = tree.settings(queue);
  if (priority <= settings.highest_priority) return {};
  return err(ErrorCode::kPermissionDenied, "priority: {} is above the {} that queue {} allows",
             priority, settings.highest_priority, settings.path);
}

Status check_time_limit(const QueueTree& tree, QueueId queue, const model::JobSpec& spec) {
  const auto most = tree.time(queue).most;
  if (!most || (spec.time_limit && *spec.time_limit <= *most)) return {};
  return err(ErrorCode::kOutOfRange, "time_limit: {} is more than the {} that {} allows",
             spec.time_limit ? model::seconds_text(*spec.time_limit) : "none",
             model::seconds_text(*most), tree.whose_most_time(queue));
}

Status check_waiting(const Settings& settings, const JobBook& book, const std::string& owner,
                     std::uint32_t more) {
  if (settings.most_waiting == 0 && settings.most_waiting_of_user == 0) return {};
  std::uint64_t all = more;
  std::uint64_t theirs = more;
  for (const auto& [id, entry] : book.entries()) {
    if (model::is_active(entry.job.state) || model::is_finished(entry.job.state)) continue;
    ++all;
    if (entry.job.owner == owner) ++theirs;
  }
  const auto refuse = [more](std::string_view whose, std::uint64_t sum, std::uint32_t most) {
    return err(ErrorCode::kResourceExhausted,
               "{}, and with {} more there would be {}, above the limit of {}; submit again "
               "when some have started, or delete some",
               fmt::format("{}{} {}", counted(sum - more, "job"), whose,
                           sum - more == 1 ? "waits" : "wait"),
               more, sum, most);
  };
  if (settings.most_waiting_of_user > 0 && theirs > settings.most_waiting_of_user) {
    return refuse(" of " + owner, theirs, settings.most_waiting_of_user);
  }
  if (settings.most_waiting > 0 && all > settings.most_waiting) {
    return refuse("", all, settings.most_waiting);
  }
  return {};
}

Status check_size(QueueTree& tree, const FleetView& fleet, const model::JobSpec& spec,
                  const std::string& owner) {
  DIVVY_RETURN_IF_ERROR(model::check(spec));
  const auto queue = tree.find(spec.queue);
  if (!queue) {
    const auto meant = tree.similar(spec.queue);
    return err(ErrorCode::kNotFound, "queue: there is no queue {}{}", spec.queue,
               meant ? fmt::format("; did you mean {}?", *meant)
                     : std::string("; an operator has to create it"));
  }
  DIVVY_RETURN_IF_ERROR(check_priority(tree, *queue, spec.priority));
  DIVVY_RETURN_IF_ERROR(check_time_limit(tree, *queue, spec));
  if (const auto small = fleet.too_small(spec.request)) {
    return err(ErrorCode::kOutOfRange, "request: {}", *small);
  }
  if (const auto fits = place::check(fleet.request_of(spec)); !fits) {
    return err(with_context(fits.error(), "request"));
  }
  const std::uint64_t members = spec.least();
  const Held least{members * fleet.least_share(spec.request).thousandths(),
                   members * fleet.least_memory(spec.request).count(), 1};
  if (const auto obstacle = tree.limit_below(*queue, tree.user(owner), least)) {
    return err(ErrorCode::kOutOfRange, "request: {}", *obstacle);
  }
  if (spec.hold_for_capacity) return {};
  place::Request request = fleet.request_of(spec);
  request.tenant = owner;
  if (const auto never = fleet.never(request)) {
    return err(ErrorCode::kOutOfRange,
               "request: it can never start: {}; ask for less, or let it wait for such a machine "
               "with --hold-for-capacity (hold_for_capacity: true)",
               *never);
  }
  return {};
}

Status check_startable(const model::Job& job, std::string_view what) {
  if (job.spec.holder == model::Holder::kMembers) return {};
  return err(
      ErrorCode::kFailedPrecondition,
      "{} {} and cannot be {}, because Divvy could not start it again; `divvy delete {}` ends "
      "it",
      name_of(job),
      job.spec.holder == model::Holder::kProcess ? "is a process of its owner (divvy run)"
                                                 : "is a slice that is held by its name",
      what, job.id);
}

}  // namespace divvy::jobs
