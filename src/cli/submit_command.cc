// `divvy submit`: a job from a file, from options, or both.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "cli/job_help_texts.h"
#include "cli/job_view.h"
#include "cli/logs_command.h"
#include "cli/session.h"
#include "cli/submit_flags.h"
#include "cli/wait_command.h"
#include "model/job_document.h"
#include "model/seconds.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kName, OutputFormat::kJson,
                                     OutputFormat::kYaml};

struct SubmitArguments {
  SubmitFlags flags;
  std::vector<std::string> command;
  std::string file;
  std::string key;
  std::string timeout;
  std::string format = "table";
  std::string log;
  std::vector<std::string> exports;
  bool dry_run = false;
  bool wait = false;
  bool follow = false;
  bool quiet = false;
};

Result<std::string> read_text(const std::string& file) {
  std::stringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code code;
  if (std::filesystem::is_directory(file, code)) {
    return err(ErrorCode::kInvalidArgument, "{} is a folder, not a job file", file);
  }
  std::ifstream stream(file);
  if (!stream) return err(ErrorCode::kInvalidArgument, "{} could not be opened", file);
  text << stream.rdbuf();
  return text.str();
}

// The document of the job, checked here so that what is wrong is told with its place.
Result<json::object> make_document(const SubmitArguments& arguments, const ClientConfig& config,
                                   const std::optional<std::string>& path) {
  std::optional<JobFile> file;
  json::object document;
  if (!arguments.file.empty()) {
    DIVVY_TRY(text, read_text(arguments.file));
    DIVVY_TRY(read, JobFile::read(text, arguments.file == "-" ? "stdin" : arguments.file));
    document = read.document();
    file.emplace(std::move(read));
  }
  DIVVY_RETURN_IF_ERROR(apply(arguments.flags, arguments.command, document));
  // By memory alone it is that memory, and as much of the GPU as that is of its memory.
  if (!document.contains("gpu") && !document.contains("gpu_memory")) document["gpu"] = "1";
  if (!document.contains("queue") && !config.queue.empty()) document["queue"] = config.queue;
  const bool contained = document.contains("container") && !document["container"].is_null();
  if (!document.contains("working_directory") && !contained) {
    std::error_code code;
    const auto here = std::filesystem::current_path(code);
    if (!code) document["working_directory"] = here.string();
  }
  if (path && !contained) {
    json::value& variables = document["environment"];
    if (variables.is_null()) variables = json::object();
    if (variables.is_object()) variables.as_object().emplace("PATH", *path);
  }
  const auto spec = model::read_job_spec(json::serialize(document));
  const Status good = spec ? model::check(*spec) : Status(err(spec.error()));
  if (!good) return err(file ? file->placed(good.error()) : good.error());
  return document;
}

// Variables of the caller's own, by name; -e of the same name goes before them.
Status add_exports(const Session& session, SubmitArguments& arguments) {
  std::vector<std::string> pairs;
  for (const std::string& name : arguments.exports) {
    const auto value = session.terminal.environment(name.c_str());
    if (!value) {
      return err(ErrorCode::kInvalidArgument,
                 "--export: there is no variable {} in your environment; set it, or use -e "
                 "NAME=VALUE",
                 escape_for_terminal(name.substr(0, 60)));
    }
    pairs.push_back(name + "=" + *value);
  }
  auto& all = arguments.flags.environment;
  all.insert(all.begin(), pairs.begin(), pairs.end());
  return {};
}

// One that runs, as `divvy run` does it: the first job of a stranger needs no other command first.
Status have_daemon(const Session& session, const Daemon& daemon) {
  if (daemon.is_remote()) return {};
  DIVVY_TRY(started, daemon.start_where_none_runs());
  if (started) {
    session.say("started divvyd in the background (its socket is " +
                daemon.options().socket.string() + ")");
  }
  return {};
}

// "17" or "17 to 26 (10 jobs)"
std::string numbers_text(const std::vector<Answer>& jobs) {
  if (jobs.size() == 1) return "job " + jobs.front()["id"].text();
  return fmt::format("jobs {} to {}", jobs.front()["id"].text(), jobs.back()["id"].text());
}

int show_submitted(const Session& session, const Asked& submitted, OutputFormat format) {
  const auto jobs = submitted.answer()["items"].items();
  switch (format) {
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
      return session.print(write_document(submitted.body(), format));
    case OutputFormat::kName: {
      std::string ids;
      for (const Answer& job : jobs) ids += job["id"].text() + "\n";
      return session.print(ids);
    }
    default:
      return session.print(fmt::format("{} ({}) {} {}\n", numbers_text(jobs),
                                       jobs.front()["name"].text(), jobs.size() == 1 ? "is" : "are",
                                       jobs.front()["state"].text()));
  }
}

int stay_with(const Session& session, const SubmitArguments& arguments,
              const std::vector<Answer>& jobs, const std::optional<std::chrono::seconds>& timeout) {
  int status = kExitOk;
  std::ofstream log;
  if (!arguments.log.empty()) log.open(arguments.log, std::ios::app);
  const Session to_log{session.services, session.terminal, session.style,   log,
                       session.err,      session.tree,     session.command, session.choice};
  for (const Answer& job : jobs) {
    const auto id = static_cast<std::uint64_t>(job["id"].number().value_or(0));
    if (arguments.follow || !arguments.log.empty()) {
      const int shown = show_logs(arguments.log.empty() ? session : to_log, id,
                                  {.follow = true, .reached = true});
      if (!arguments.log.empty() && !log) {
        session.say(fmt::format("{} could not be written; job {} goes on: divvy logs {}",
                                arguments.log, id, id));
      }
      if (shown != kExitOk) return shown;
    }
    const int waited = wait_for_job(session, id,
                                    {.what = WaitFor::kEnded,
                                     .timeout = timeout,
                                     .quiet = arguments.quiet,
                                     .only_trouble = arguments.follow,
                                     .reached = true});
    if (waited != kExitOk) return waited;
    const Asked ended = ask(session, "GET", fmt::format("/v1/jobs/{}", id));
    if (!ended) return ended.status();
    if (status == kExitOk) status = exit_status_of(ended.answer());
  }
  return status;
}

Result<int> submit(const Session& session, SubmitArguments arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kFormats));
  std::optional<std::chrono::seconds> timeout;
  if (!arguments.timeout.empty()) {
    DIVVY_TRY(parsed, with_context(model::parse_seconds(arguments.timeout), "--timeout"));
    timeout = parsed;
    if (!arguments.wait) return err(ErrorCode::kInvalidArgument, "--timeout needs --wait");
  }
  if (arguments.file.empty() && arguments.command.empty() && !arguments.flags.image) {
    return err(ErrorCode::kInvalidArgument,
               "no command was given: divvy submit --gpu 0.3 -- python train.py");
  }
  if (arguments.follow && !arguments.log.empty()) {
    return err(ErrorCode::kInvalidArgument, "--follow and --log exclude each other");
  }
  // Before anything is submitted: a job whose output has nowhere to go is not what was meant.
  if (!arguments.log.empty() && !std::ofstream(arguments.log, std::ios::app)) {
    return err(ErrorCode::kInvalidArgument, "--log: {} could not be opened", arguments.log);
  }
  DIVVY_RETURN_IF_ERROR(add_exports(session, arguments));
  const auto config = load_client_config(session.terminal.environment);
  if (!config) return session.fail(config.error());
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  // What works when it is typed works as a job; on another machine programs lie elsewhere.
  const auto path = daemon->is_remote() ? std::nullopt : session.terminal.environment("PATH");
  DIVVY_TRY(document, make_document(arguments, *config, path));
  if (const Status there = have_daemon(session, *daemon); !there) {
    return session.fail(there.error());
  }
  const std::string body = json::serialize(document);
  net::HttpHeaders headers;
  if (!arguments.key.empty()) headers["idempotency-key"] = arguments.key;
  const Asked submitted =
      ask(session, "POST", arguments.dry_run ? "/v1/jobs?dry_run=true" : "/v1/jobs", body, headers);
  if (!submitted) return submitted.status();
  if (arguments.dry_run) {
    if (format == OutputFormat::kJson || format == OutputFormat::kYaml) {
      return session.print(write_document(body, format));
    }
    session.say("it would be taken; nothing was submitted");
    return kExitOk;
  }
  const auto jobs = submitted.answer()["items"].items();
  if (jobs.empty()) {
    return session.fail(Error{ErrorCode::kInternal, "divvyd took the job and did not number it"});
  }
  const int shown = show_submitted(session, submitted, format);
  if (shown != kExitOk) return shown;
  if (arguments.wait || arguments.follow || !arguments.log.empty())
    return stay_with(session, arguments, jobs, timeout);
  if (!arguments.quiet) {
    const std::string id = jobs.front()["id"].text();
    session.say(fmt::format("next: divvy logs {} -f, divvy get {}", id, id));
  }
  return kExitOk;
}

}  // namespace

void add_submit_command(CommandTree& tree) {
  auto arguments = std::make_shared<SubmitArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "submit", "Put a job into a queue", kSubmitFooter,
               [arguments](const Session& session) { return submit(session, *arguments); });
  tree.takes_command(*command, arguments->command);
  command->add_option("-f,--file", arguments->file, "A job file; - is standard input")
      ->type_name("FILE");
  add_submit_flags(*command, arguments->flags);
  command->add_flag("--dry-run", arguments->dry_run, "Only check it");
  command->add_flag("--wait", arguments->wait, "Wait until it has ended; its exit status is ours");
  command->add_flag("--follow", arguments->follow, "The same, and show its output");
  command
      ->add_option("--log", arguments->log,
                   "Wait until it has ended, and write its output at the end of this file")
      ->type_name("FILE");
  add_list(*command, "--export", arguments->exports, "A variable of your own environment", "NAME");
  command->add_option("--timeout", arguments->timeout, "With --wait: at most so long")
      ->type_name("TIME");
  command
      ->add_option("--key", arguments->key,
                   "The same key twice is one job: for scripts that try again")
      ->type_name("TEXT");
  command->add_flag("-q,--quiet", arguments->quiet, "No hints");
  add_output(*command, arguments->format, kFormats);
}

}  // namespace divvy::cli
