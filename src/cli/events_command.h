// The command `divvy events`: what happened to GPUs and to the tenants on them. Runs on the main
// thread.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/style.h"

namespace divvy::cli {

struct EventsOptions {
  OutputFormat format = OutputFormat::kTable;
  bool follow = false;
  std::uint64_t since = 0;
};

// Following ends with a signal, with the reader of `out`, or with the daemon.
[[nodiscard]] int show_events(const Daemon& daemon, const EventsOptions& options,
                              const Style& style, std::ostream& out, std::ostream& err);

// One event for a program: JSON in a line, a YAML document, or the field `name`. Nothing for the
// formats that people read.
[[nodiscard]] std::optional<std::string> write_event(const std::string& document,
                                                     const std::string& name, OutputFormat format);

// The answer of GET /v1/events: one line for each event, for people or (JSON) for programs. The
// number of the last event goes to `last`.
[[nodiscard]] Result<std::string> event_lines(const std::string& document, OutputFormat format,
                                              const Style& style, std::uint64_t& last);

}  // namespace divvy::cli
