// A variable of a job in a container that says for whom its published ports are: without it for
// everybody who reaches the machine, as podman has it; with "loopback" for the machine itself. What
// Divvy publishes by itself, for services and sessions, has it.
#pragma once

namespace divvy::model {

inline constexpr const char* kPublishVariable = "DIVVY_PUBLISH";
inline constexpr const char* kPublishLoopback = "loopback";

}  // namespace divvy::model
