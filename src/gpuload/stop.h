// SIGINT and SIGTERM end a timed run early, with a report. Set up by the main thread; asked from
// any.
#pragma once

namespace divvy::gpuload {

void install_stop_signals();
[[nodiscard]] bool stop_requested();

}  // namespace divvy::gpuload
