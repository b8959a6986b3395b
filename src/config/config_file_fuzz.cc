// Any bytes as a configuration file: it is read, or refused with places that exist, and what was
// read is written as a file that means the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "config/config_file.h"
#include "config/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ReadConfig read = read_config(text);
  for (const Problem& problem : read.problems) {
    DIVVY_CHECK(problem.at.line >= 0 && problem.at.column >= 0, "a place before the beginning");
    DIVVY_CHECK(problem.what.find('\n') == std::string::npos, "a problem of several lines");
  }
  if (!read.problems.empty()) return 0;
  const ReadConfig again = read_config(write_config(read.config));
  DIVVY_CHECK(again.problems.empty(), "{}", again.problems.empty() ? "" : again.problems[0].what);
  for (const Setting& setting : settings()) {
    DIVVY_CHECK(setting.write(again.config) == setting.write(read.config), "{} changed",
                setting.path());
  }
  return 0;
}
