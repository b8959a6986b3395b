// A label of the jobs that are replicas of a service: its name. Replicas of one service and owner
// go to different GPUs where there is room for that.
#pragma once

namespace divvy::model {

inline constexpr const char* kServiceLabel = "divvy.service";

}  // namespace divvy::model
