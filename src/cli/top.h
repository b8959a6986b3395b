// The command `divvy top`: watches GPUs and tenants live. Runs on the main thread.
#pragma once

#include <iosfwd>

#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/style.h"

namespace divvy::cli {

struct TopOptions {
  OutputFormat format = OutputFormat::kTable;
  bool once = false;
};

// With `once`, or in a document format, prints once and returns; otherwise until the user quits.
[[nodiscard]] int watch_tenants(const Daemon& daemon, const TopOptions& options, const Style& style,
                                std::ostream& out, std::ostream& err);

}  // namespace divvy::cli
