#include "cli/top.h"

#include <unistd.h>

#include <ostream>

#include "cli/exit_codes.h"
#include "cli/stats.h"
#include "cli/top_screen.h"
#include "cli/top_view.h"

namespace divvy::cli {

int watch_tenants(const Daemon& daemon, const TopOptions& options, const Style& style,
                  std::ostream& out, std::ostream& err) {
  const auto reply = daemon.ask("GET", "/v1/stats");
  if (!reply) {
    err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  if (!reply->ok()) {
    err << "divvy: " << problem_text(*reply) << "\n";
    return problem_exit(*reply);
  }
  if (options.format != OutputFormat::kTable) {
    out << write_document(reply->body, options.format) << std::flush;
    return out ? kExitOk : kExitError;
  }
  auto stats = parse_stats(reply->body);
  if (!stats) {
    err << "divvy: " << stats.error().message << "\n";
    return kExitError;
  }
  if (options.once) {
    const auto waiting = daemon.ask("GET", kWaitingJobsPath);
    if (waiting && waiting->ok()) add_waiting_jobs(*stats, waiting->body);
    History history;
    history.add(*stats);
    out << to_text(top_lines(*stats, history, {}, style), style) << std::flush;
    return out ? kExitOk : kExitError;
  }
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    err << "divvy: `divvy top` needs a terminal; use --once or -o json\n";
    return kExitUsage;
  }
  const Status watched = run_top_screen(daemon, style);
  if (!watched) {
    err << "divvy: " << watched.error().message << "\n";
    return kExitError;
  }
  return kExitOk;
}

}  // namespace divvy::cli
