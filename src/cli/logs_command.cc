#include "cli/logs_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_reference.h"
#include "cli/job_view.h"
#include "cli/job_watch.h"
#include "cli/log_follow.h"
#include "cli/since.h"

namespace divvy::cli {
namespace {

std::string log_path(std::uint64_t job, const LogOptions& options, bool follow,
                     const std::optional<std::int64_t>& since) {
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : ""; };
  // A break asks for what was missed and not for the last lines.
  const bool again = since != options.since_milliseconds;
  return fmt::format("/v1/jobs/{}/logs", job) +
         write_query({{"follow", follow ? "true" : ""},
                      {"timestamps", "true"},
                      {"since", number(since)},
                      {"tail", again ? "" : number(options.tail)},
                      {"rank", number(options.rank)},
                      {"attempt", number(options.attempt)}});
}

// Nothing was written by a job that has not begun: that is no empty output.
void say_that_it_waits(const Session& session, const Daemon& daemon, std::uint64_t job) {
  const auto reply = daemon.ask("GET", fmt::format("/v1/jobs/{}", job));
  const auto answer = reply && reply->ok() ? Answer::parse(reply->body) : Result<Answer>(Answer());
  if (!answer || (*answer)["state"].text() != "queued") return;
  const std::string why = (*answer)["waits"]["text"].text();
  session.say(
      fmt::format("job {} waits and has written nothing yet{}; `divvy explain {}` says more", job,
                  why.empty() ? "" : ": " + why, job));
}

bool is_over(const LogOptions& options) {
  return options.until && std::chrono::steady_clock::now() >= *options.until;
}

// What is left until then. Without it none: a job may be silent for as long as it likes.
std::optional<std::chrono::milliseconds> patience(const LogOptions& options) {
  if (!options.until) return std::nullopt;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*options.until -
                                                                 std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

}  // namespace

int show_logs(const Session& session, std::uint64_t job, const LogOptions& options) {
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  const DetachOnInterrupt detach(
      fmt::format("stopped looking; job {} goes on: divvy logs {} -f", job, job));
  bool wrote = false;
  LogFollow log(options.timestamps, [&](std::string_view line) {
    session.out << line;
    wrote = true;
  });
  Outage outage(session);
  if (options.follow && !options.reached) say_that_it_waits(session, *daemon, job);
  // A daemon that was never there is an error; one that went away comes back.
  for (bool reached = options.reached;;) {
    const auto since = log.since() ? log.since() : options.since_milliseconds;
    Question question{.method = "GET", .path = log_path(job, options, options.follow, since)};
    question.timeout = patience(options);
    const auto reply = daemon->follow(question, [&](std::string_view piece) {
      reached = true;
      outage.over();
      log.take(piece);
      session.out << std::flush;
      return session.out && !is_over(options);
    });
    if (!session.out) return kExitError;
    if (is_over(options)) {
      log.end();
      session.out << std::flush;
      return kExitWaitedTooLong;
    }
    if (reply && !reply->ok()) return session.fail(*reply);
    if (!reply && (!reached || !options.follow)) return session.fail(reply.error());
    if (!options.follow) break;
    // The stream also ends with the daemon; only the job can say whether that was all.
    const auto now = daemon->ask("GET", fmt::format("/v1/jobs/{}", job));
    if (now && !now->ok()) return session.fail(*now);
    if (reply && now) {
      reached = true;
      const auto answer = Answer::parse(now->body);
      if (!answer || is_final_state((*answer)["state"].text())) break;
    }
    log.broken();
    outage.wait();
  }
  log.end();
  session.out << std::flush;
  if (!wrote && !options.follow) say_that_it_waits(session, *daemon, job);
  return session.out ? kExitOk : kExitError;
}

void add_logs_command(CommandTree& tree) {
  struct Arguments {
    std::string job;
    std::string since;
    LogOptions options;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "logs", "Print the output of a job", kLogsFooter,
               [arguments](const Session& session) -> Result<int> {
                 LogOptions options = arguments->options;
                 if (!arguments->since.empty()) {
                   DIVVY_TRY(since, parse_since(arguments->since, session.now()));
                   options.since_milliseconds = since;
                 }
                 if (options.follow && options.attempt) {
                   return err(ErrorCode::kInvalidArgument,
                              "--follow goes on with every new attempt; it excludes --attempt");
                 }
                 const auto job = find_job(session, arguments->job, JobMeant::kNewest);
                 if (!job) return job.error();
                 return show_logs(session, *job, options);
               });
  LogOptions& options = arguments->options;
  command->add_option("JOB", arguments->job, "Its number or name")->required();
  command->add_flag("-f,--follow", options.follow, "Go on until the job has ended");
  command
      ->add_option("--since", arguments->since,
                   "Only what it wrote since: 10m, 2026-11-15T08:00:00Z")
      ->type_name("TIME");
  command->add_option("--tail", options.tail, "Only the last so many lines")->type_name("NUMBER");
  command->add_flag("--timestamps", options.timestamps, "With the time before each line");
  command->add_option("--rank", options.rank, "Only of this member")->type_name("NUMBER");
  command->add_option("--attempt", options.attempt, "Of this attempt (the last)")
      ->type_name("NUMBER");
}

}  // namespace divvy::cli
