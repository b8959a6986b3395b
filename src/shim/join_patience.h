// How long cuInit waits for a daemon that is just being restarted.
#pragma once

namespace divvy::shim {

constexpr int kJoinPatienceMs = 5000;

// `seconds`: the text of DIVVY_SOCKET_WAIT, or null. It comes from the program's environment, which
// anybody may have written.
constexpr int join_patience_ms(const char* seconds) {
  constexpr int kLongest = 600;
  int value = 0;
  if (seconds == nullptr) return kJoinPatienceMs;
  for (const char* at = seconds; *at != '\0'; ++at) {
    if (*at < '0' || *at > '9') return kJoinPatienceMs;
    value = value * 10 + (*at - '0');
    if (value > kLongest) return kJoinPatienceMs;
  }
  return value == 0 ? kJoinPatienceMs : value * 1000;
}

}  // namespace divvy::shim
