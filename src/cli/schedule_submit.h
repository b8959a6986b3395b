// `divvy submit --every`: the job is not submitted now but at its times. Runs on the main thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>

#include "cli/output.h"

namespace divvy::cli {

struct Session;

struct ScheduleWish {
  std::string every;  // empty: now, and once
  std::optional<std::string> missed, overlap;
};
// The exit status.
[[nodiscard]] int submit_schedule(const Session& session, const ScheduleWish& wish,
                                  boost::json::object job, OutputFormat format);

}  // namespace divvy::cli
