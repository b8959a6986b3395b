#include "cli/job_events.h"

#include <ostream>

#include "cli/detach.h"
#include "cli/events_command.h"
#include "cli/exit_codes.h"
#include "cli/job_view.h"
#include "cli/job_watch.h"

namespace divvy::cli {
namespace {

// 2026-01-01T00:00:00Z  job 17    running    on box
std::string line_of(const Answer& event, const Style& style) {
  const std::string state = event["state"].text();
  const std::string what = event["job"].empty()
                               ? event["kind"].text() + " " + event["object"].text()
                               : "job " + event["job"].text();
  std::string line = fmt::format("{}  {:<9}  {}  {}", moment_text(event["unixMilliseconds"]), what,
                                 style.paint(color_of_state(state), fmt::format("{:<9}", state)),
                                 event["reason"].text());
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

int show_job_events(const Session& session, const Daemon& daemon, const JobEventsOptions& options) {
  const DetachOnInterrupt detach("stopped looking");
  bool written = true;
  const int status = watch_jobs(
      session, daemon, {.job = options.job, .after = options.after, .follow = options.follow},
      {.event = [&](const Answer& event) {
        session.out << write_event(event.json(), "number", options.format)
                           .value_or(line_of(event, session.style))
                    << std::flush;
        written = static_cast<bool>(session.out);
        return written;
      }});
  return written ? status : kExitError;
}

}  // namespace divvy::cli
