// The exit statuses of `divvy`: a promise to scripts.
#pragma once

namespace divvy::cli {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNotFound = 3;
constexpr int kExitDenied = 5;
constexpr int kExitNoFit = 75;  // As sysexits.h: it may work later
constexpr int kExitWaitedTooLong = 124;
constexpr int kExitCannotRun = 126;  // As shells do
constexpr int kExitNoSuchCommand = 127;

}  // namespace divvy::cli
