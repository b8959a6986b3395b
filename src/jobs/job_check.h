// Whether the queue takes a job: what its queue allows and what the fleet could ever run. Called by
// jobs::Queue for what is submitted and for what is updated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jobs/fleet_view.h"
#include "jobs/job_book.h"
#include "jobs/queue_tree.h"
#include "jobs/settings.h"
#include "model/job.h"

namespace divvy::jobs {

// Each is refused with a sentence that begins with the field.
[[nodiscard]] Status check_priority(const QueueTree& tree, QueueId queue, std::int32_t priority);
[[nodiscard]] Status check_time_limit(const QueueTree& tree, QueueId queue,
                                      const model::JobSpec& spec);
// Whether its queue and the fleet would ever run it. The tree gets to know the owner.
[[nodiscard]] Status check_size(QueueTree& tree, const FleetView& fleet, const model::JobSpec& spec,
                                const std::string& owner);
// Whether so many more may wait.
[[nodiscard]] Status check_waiting(const Settings& settings, const JobBook& book,
                                   const std::string& owner, std::uint32_t more);
// Refused: a job that Divvy could not start again, because it did not start it. `what` would be
// done to it ("suspended").
[[nodiscard]] Status check_startable(const model::Job& job, std::string_view what);

}  // namespace divvy::jobs
