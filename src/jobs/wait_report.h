// Why a job waits, where it stands in line and when it may start, for whoever asks. Changes
// nothing: what is tried out is tried out on copies. Called by jobs::Queue.
#pragma once

#include "jobs/explain.h"
#include "jobs/queue_view.h"

namespace divvy::jobs {

// `guess_start` takes the longest.
[[nodiscard]] WaitReport report_wait(const QueueView& view, model::JobId job, WallTime now,
                                     bool guess_start);

}  // namespace divvy::jobs
