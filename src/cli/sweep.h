// A sweep: one job for each combination of values, told apart by labels, and what they reported.
// Pure, callable from any thread; any text is safe to pass.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

inline constexpr std::string_view kSweepLabel = "sweep";
inline constexpr std::string_view kSweepValueLabel = "sweep.";  // and the name
inline constexpr std::size_t kMostSweepJobs = 1000;

// One name and the values that it takes.
struct SweepAxis {
  std::string name;
  std::vector<std::string> values;
  friend bool operator==(const SweepAxis&, const SweepAxis&) = default;
};
// "lr=0.1,0.01" or "seed=0..4".
[[nodiscard]] Result<SweepAxis> parse_sweep_axis(std::string_view text);

using SweepPoint = std::vector<std::pair<std::string, std::string>>;
// All combinations, the last axis first; kInvalidArgument: too many, or a name twice.
[[nodiscard]] Result<std::vector<SweepPoint>> sweep_points(const std::vector<SweepAxis>& axes);

// Writes the values where the command and the variables say {name}, and labels the job.
// kInvalidArgument: nothing says {name}, so that all jobs would be the same.
[[nodiscard]] Status put_sweep_point(const SweepPoint& point, const std::string& sweep,
                                     boost::json::object& document);

// The numbers of the last line of an output that is a JSON object with numbers in it. Of a run that
// diverged they are NaN or Infinity, as Python writes them, with or without quotes.
using Metrics = std::vector<std::pair<std::string, double>>;
[[nodiscard]] Metrics metrics_in(std::string_view output);

}  // namespace divvy::cli
