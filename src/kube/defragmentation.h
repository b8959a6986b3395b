// Pods that are moved so that one that waits finds its GPUs in one piece: the rules of it
// (docs/kubernetes-defragmentation.md). Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "jobs/moves.h"

namespace divvy::kube {

enum class Defragmentation {
  kOff,
  kDryRun,  // The moves are planned and told, and none is made.
  kOn,
};
[[nodiscard]] std::string_view to_string(Defragmentation mode);
// "off", "dry-run" or "on"
[[nodiscard]] Result<Defragmentation> parse_defragmentation(std::string_view text);

struct DefragmentationRules {
  Defragmentation mode = Defragmentation::kOff;
  std::uint32_t moves = 4;  // for one pod or gang that waits, at most
  std::uint32_t moves_per_hour = 12;
  // A pod that has not been so long where it is stays there, so that none is moved to and fro.
  Duration least_stay = std::chrono::minutes(30);
  // Others are moved for a pod only when it has waited so long.
  Duration patience = std::chrono::minutes(1);
  // So long the successor of a pod that was evicted has to come, and then to start.
  Duration arrival = std::chrono::minutes(2);
  // For whom moves were given up, no others are begun for so long.
  Duration rest = std::chrono::minutes(10);
  // Between one look for moves that would help and the next.
  Duration look_again = std::chrono::seconds(30);
};

// What would be moved, or is, in the words of people.
struct PlannedMoves {
  struct Step {
    std::string pod;   // "team-a/web-0"
    std::string from;  // "0.5 of gpu0 of node-a"
    std::string to;
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::string pod;   // for which: "pod team-a/train", or its gang
  std::string node;  // where it would be then
  std::vector<Step> moves;
  jobs::FreeRoom before;
  jobs::FreeRoom after;
  friend bool operator==(const PlannedMoves&, const PlannedMoves&) = default;
};
// "it fits on node-b if 2 pods move: team-a/a from ... to ..., ..."
[[nodiscard]] std::string describe(const PlannedMoves& plan);
// "the largest job that fits is then one of 2 GPUs instead of 1, and ..."
[[nodiscard]] std::string describe_gain(const PlannedMoves& plan);

}  // namespace divvy::kube
