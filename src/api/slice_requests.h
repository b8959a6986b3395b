// Asks for slices on behalf of a caller, as a job that holds them (`divvy run`, `divvy slice
// create`), and answers when they are granted or cannot be. Called by the handlers of machines,
// from many threads at once.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <tl/expected.hpp>

#include "api/call.h"
#include "api/requests.h"

namespace divvy::api {

struct GrantedSlices {
  boost::json::value document;  // what it has, as the machine shows it
  agent::Environment environment;
  std::string device;  // that containers name
  model::JobId job;
};
// Or the answer to the caller: 409 with what is in the way, 422 when it can never fit. `as` is
// whose process it becomes.
[[nodiscard]] tl::expected<GrantedSlices, net::HttpResponse> ask_for_slices(
    const Call& call, GrantRequest wanted, const agent::LocalCaller& as);

}  // namespace divvy::api
