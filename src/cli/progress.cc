#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "base/text.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kBarWidth = 30;
// Back to the beginning of the line, and nothing right of it.
constexpr std::string_view kClear = "\r\x1b[K";

}  // namespace

Progress::Progress(std::ostream& err, bool shown, const Style& style)
    : err_(err), shown_(shown), style_(style) {}

Progress::~Progress() {
  if (!line_.empty()) err_ << kClear << std::flush;
}

void Progress::show(std::size_t done, std::size_t total, const std::string& what) {
  if (!shown_ || total == 0) return;
  done = std::min(done, total);
  const std::size_t full = kBarWidth * done / total;
  std::string bar;
  for (std::size_t i = 0; i < kBarWidth; ++i) {
    bar += i < full ? style_.pick("█", "#") : style_.pick("░", ".");
  }
  const std::string line =
      shorten(fmt::format("{} {:>3} % {}", bar, 100 * done / total, escape_for_terminal(what)),
              style_.columns.value_or(80) - 1, style_);
  if (line == line_) return;
  line_ = line;
  err_ << kClear << line << std::flush;
}

}  // namespace divvy::cli
