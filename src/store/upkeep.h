// What the store need not know for ever. The daemon calls it once an hour, inside a change.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

// A request that is sent again after so long is a new one.
constexpr std::chrono::hours kKeepKeys{24 * 7};
// Whoever watches and was away for longer than so many looks at the jobs themselves.
constexpr std::uint64_t kKeepEvents = 100'000;
// A year and a month, so that a whole year can be reported.
constexpr std::chrono::hours kKeepUsage{24 * 400};
// Likewise; and of one person the newest of so many entries, so that nobody fills the disk, or
// pushes out what others did.
constexpr std::chrono::hours kKeepAudit{24 * 400};
constexpr std::uint64_t kKeepAuditOfOne = 200'000;

// `events_since`: those from before go, too; nothing: however old they are.
[[nodiscard]] Status forget_old(Connection& connection, WallTime now,
                                std::optional<WallTime> events_since = {});

}  // namespace divvy::store
