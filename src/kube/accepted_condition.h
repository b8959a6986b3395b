// The one condition in the status of our objects of Kubernetes: whether what they say holds.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "base/clock.h"

namespace divvy::kube {

// `before` is the status that the object has: the time of the condition is that of its last change.
[[nodiscard]] boost::json::array accepted_condition(const boost::json::object& before,
                                                    bool accepted, const std::string& reason,
                                                    const std::string& message, WallTime now);

}  // namespace divvy::kube
