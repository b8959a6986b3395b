// The commands `divvy ps` and `divvy set`: tenants as the daemon describes them (JSON in), as
// tables for people. Runs on the main thread.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "cli/answer.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/style.h"

namespace divvy::cli {

// The answer of GET /v1/tenants as a table, one line per slice.
[[nodiscard]] Result<std::string> tenant_table(const std::string& document, const Style& style,
                                               bool wide);

struct PsOptions {
  OutputFormat format = OutputFormat::kTable;
  bool watch = false;
};
[[nodiscard]] int list_tenants(const Daemon& daemon, const PsOptions& options, const Style& style,
                               std::ostream& out, std::ostream& err);

struct SetOptions {
  std::string tenant;
  std::optional<std::string> gpu;
  std::optional<std::string> memory;
  std::optional<bool> cap;
  std::optional<std::string> tenant_class;
};
// What a change did, in a line: "tenant 3 (train): share 0.3 → 0.5". `before` may be empty.
[[nodiscard]] std::string change_text(const Answer& before, const Answer& after,
                                      const Style& style);
[[nodiscard]] int change_tenant(const Daemon& daemon, const SetOptions& options, const Style& style,
                                std::ostream& out, std::ostream& err);

}  // namespace divvy::cli
