// Moves bytes between two sockets, both ways, on the caller's thread.
#pragma once

namespace divvy::sys {

// Until both directions have ended, or one is broken. The end of one direction is passed on, so
// that the other side may still answer.
void pump_bytes(int one, int other);

}  // namespace divvy::sys
