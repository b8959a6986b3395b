// What would become of a copy of a queue, as it is and with changes, as the answer of POST
// /v1/what-if. Pure but for the time that it takes, which is bounded; callable from any thread.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "api/what_if_request.h"
#include "base/clock.h"
#include "base/result.h"
#include "jobs/snapshot.h"
#include "sim/forecast.h"

namespace divvy::api {

// Of those at the end of a longer line it is said that they are left out.
inline constexpr std::size_t kMostWaitingSimulated = 5'000;

// `queues` are those that there are. Refused: changes that cannot be.
[[nodiscard]] Result<boost::json::object> what_if_document(jobs::Snapshot snapshot,
                                                           const WhatIfRequest& request,
                                                           const std::vector<std::string>& queues,
                                                           const sim::Lengths& lengths,
                                                           WallTime now);

}  // namespace divvy::api
