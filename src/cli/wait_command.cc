#include "cli/wait_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_reference.h"
#include "cli/job_view.h"
#include "cli/job_watch.h"
#include "model/seconds.h"

namespace divvy::cli {
namespace {

// Nothing: it is not decided yet.
std::optional<int> verdict(const Answer& job, WaitFor what) {
  const std::string state = job["state"].text();
  const bool ended = is_final_state(state);
  switch (what) {
    case WaitFor::kEnded:
      return ended ? std::optional(kExitOk) : std::nullopt;
    case WaitFor::kSucceeded:
      if (state == "succeeded") return kExitOk;
      return ended ? std::optional(kExitError) : std::nullopt;
    case WaitFor::kRunning:
      // It ran if it has come as far as having succeeded.
      if (state == "running" || state == "succeeded") return kExitOk;
      return ended ? std::optional(kExitError) : std::nullopt;
  }
  return std::nullopt;
}

std::string state_words(const std::string& state) {
  if (state == "succeeded" || state == "failed") return "has " + state;
  return (state == "cancelled" ? "was " : "is ") + state;
}

// ": ended with exit code 3" of one that did not succeed; empty where nothing is known.
std::string why(const Answer& job) {
  const auto steps = job["history"].items();
  if (job["state"].text() == "succeeded" || steps.empty()) return {};
  const std::string reason = steps.back()["reason"].text();
  return reason.empty() ? "" : ": " + reason;
}

struct WaitArguments {
  std::vector<std::string> jobs;
  std::string what = "ended";
  std::string timeout;
  bool quiet = false;
};

Result<int> wait(const Session& session, const WaitArguments& arguments) {
  WaitOptions options;
  options.quiet = arguments.quiet;
  DIVVY_TRY(what, parse_wait_for(arguments.what));
  options.what = what;
  const auto begin = std::chrono::steady_clock::now();
  std::optional<std::chrono::seconds> limit;
  if (!arguments.timeout.empty()) {
    DIVVY_TRY(timeout, with_context(model::parse_seconds(arguments.timeout), "--timeout"));
    limit = timeout;
  }
  int status = kExitOk;
  for (const std::string& typed : arguments.jobs) {
    const auto id = find_job(session, typed, JobMeant::kNewest);
    if (!id) return id.error();
    if (limit) {
      const auto gone =
          std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
      options.timeout = std::max(*limit - gone, std::chrono::seconds(0));
    }
    const int one = wait_for_job(session, *id, options);
    if (status == kExitOk) status = one;
  }
  return status;
}

}  // namespace

Result<WaitFor> parse_wait_for(const std::string& text) {
  if (text == "succeeded") return WaitFor::kSucceeded;
  if (text == "ended") return WaitFor::kEnded;
  if (text == "running") return WaitFor::kRunning;
  constexpr std::string_view kWords[] = {"succeeded", "ended", "running"};
  const auto meant = did_you_mean(text, kWords);
  return err(ErrorCode::kInvalidArgument, "--for: \"{}\" is not succeeded, ended or running{}",
             escape_for_terminal(text.substr(0, 40)),
             meant ? fmt::format("; did you mean {}?", *meant) : "");
}

int wait_for_job(const Session& session, std::uint64_t job, const WaitOptions& options) {
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  const DetachOnInterrupt detach(
      fmt::format("stopped waiting; job {} goes on: divvy get {}", job, job));
  WatchWish wish{.job = job, .reached = options.reached};
  if (options.timeout) wish.until = std::chrono::steady_clock::now() + *options.timeout;

  // Asked again after every event rather than read from it: what counts is how it stands now.
  std::optional<int> decided;
  Answer last;
  const auto look = [&] {
    const auto reply = daemon->ask("GET", fmt::format("/v1/jobs/{}", job));
    if (!reply) return true;  // An outage; the events will come again.
    wish.reached = true;
    if (!reply->ok()) {
      decided = session.fail(*reply);
      return false;
    }
    const auto answer = Answer::parse(reply->body);
    if (answer) last = *answer;
    decided = verdict(last, options.what);
    return !decided;
  };
  if (look()) {
    const int watched =
        watch_jobs(session, *daemon, wish,
                   {.connected = look, .event = [&](const Answer&) { return look(); }});
    if (watched != kExitOk) {
      if (watched == kExitWaitedTooLong && !options.quiet) {
        session.say(fmt::format("job {} is still {}", job, last["state"].text()));
      }
      return watched;
    }
  }
  const bool expected = options.only_trouble && last["state"].text() == "succeeded";
  if (!options.quiet && !expected && !last.empty()) {
    session.say(fmt::format("job {} {}{}", job, state_words(last["state"].text()), why(last)));
  }
  return decided.value_or(kExitError);
}

void add_wait_command(CommandTree& tree) {
  auto arguments = std::make_shared<WaitArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "wait", "Wait until jobs have come so far", kWaitFooter,
               [arguments](const Session& session) { return wait(session, *arguments); });
  command->add_option("JOB", arguments->jobs, "Numbers or names")->required();
  command->add_option("--for", arguments->what, "Until it is: succeeded, ended or running (ended)")
      ->type_name("STATE");
  command->add_option("--timeout", arguments->timeout, "At most so long: 90s, 30m")
      ->type_name("TIME");
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing");
}

}  // namespace divvy::cli
