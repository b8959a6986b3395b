// Queues and users as an operator sets them, as JSON: what the API takes and shows and what the
// store keeps. Fields are added, never renamed or taken away. Pure, callable from any thread.
//
//   {"gpu": 4, "memory": "320GiB", "jobs": 20, "borrow": true, "most_gpu": 8, "weight": 2,
//    "user_gpu": 2, "user_memory": null, "user_jobs": 5, "default_time_limit": "10m",
//    "max_time_limit": "1d", "idle_after": "1h", "idle_warning": "10m"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "jobs/settings.h"
#include "store/settings_table.h"

namespace divvy::api {

[[nodiscard]] std::string write_queue_settings(const jobs::QueueSettings& settings);
[[nodiscard]] Result<jobs::QueueSettings> read_queue_settings(std::string path,
                                                              std::string_view json);

// {"gpu": 4, "memory": "320GiB", "jobs": 20, "weight": 2}
[[nodiscard]] std::string write_user_settings(const jobs::UserSettings& settings);
[[nodiscard]] Result<jobs::UserSettings> read_user_settings(std::string name,
                                                            std::string_view json);

// What is in the configuration with what was set later over it: a queue or user that was set takes
// the place of the one in the file. The error is for whoever starts the daemon.
[[nodiscard]] Result<jobs::Settings> with_stored_settings(
    jobs::Settings settings, const std::vector<store::SettingsRow>& queues,
    const std::vector<store::SettingsRow>& users);

}  // namespace divvy::api
