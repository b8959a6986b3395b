// How the jobs of sessions (`divvy session`) are known: labels with the name of the app and, where
// it is not the job's own (model/member_port.h), its port; and the variable that holds what opens
// it.
#pragma once

#include <string_view>

namespace divvy::model {

inline constexpr std::string_view kSessionLabel = "divvy.session";
inline constexpr std::string_view kSessionPortLabel = "divvy.session.port";
inline constexpr std::string_view kSessionToken = "SESSION_TOKEN";

}  // namespace divvy::model
