// What a webhook is sent about a job that has ended. Pure.
#pragma once

#include <optional>

#include "model/job.h"
#include "store/notification_table.h"

namespace divvy::control {

// Nothing: the job goes on, or nobody wants to know of this end. The document in it has the words
// of the API's Job, and nothing of what the job runs: neither its command nor its environment.
[[nodiscard]] std::optional<store::NotificationRow> notification_of(const model::Job& job);

}  // namespace divvy::control
