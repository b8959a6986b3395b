// Feeds any bytes to the reader of scenarios, and plays what it accepts: what is refused names the
// line, and what is played twice comes out the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "sim/scenario.h"
#include "sim/scenario_report.h"
#include "sim/scenario_run.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scenario = sim::parse_scenario(text, "input");
  if (!scenario) {
    const std::string& message = scenario.error().message;
    DIVVY_CHECK(message.starts_with("input:"), "{}", message);
    DIVVY_CHECK(message.find('\n') == std::string::npos, "{}", message);
    return 0;
  }
  // Thousands of nodes or members are legal, but a fuzzer has better things to do.
  if (scenario->nodes.size() > 16) return 0;
  for (const sim::Step& step : scenario->steps) {
    const auto* submit = std::get_if<sim::Submit>(&step.what);
    if (submit != nullptr && submit->spec.members() > 64) return 0;
  }
  const auto report = sim::run_scenario(*scenario);
  if (!report) {
    DIVVY_CHECK(report.error().message.starts_with("input:"), "{}", report.error().message);
    return 0;
  }
  DIVVY_CHECK(report->gpu_use >= 0 && report->gpu_use <= 1 + 1e-9, "{}", report->gpu_use);
  const auto again = sim::run_scenario(*scenario);
  DIVVY_CHECK(again && sim::to_json(*again) == sim::to_json(*report), "two runs differ");
  return 0;
}
