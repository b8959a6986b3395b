// `divvy submit`: a job from a file, from options, or both.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/counted.h"
#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "cli/job_help_texts.h"
#include "cli/job_template.h"
#include "cli/job_view.h"
#include "cli/logs_command.h"
#include "cli/member_channel.h"
#include "cli/member_processes.h"
#include "cli/schedule_submit.h"
#include "cli/session.h"
#include "cli/ssh_config.h"
#include "cli/submit_document.h"
#include "cli/submit_flags.h"
#include "cli/sweep.h"
#include "cli/torch_launch.h"
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
  std::string job_template;
  std::vector<std::string> set;
  std::string key;
  std::string timeout;
  std::string format = "table";
  std::string log;
  std::vector<std::string> exports;
  std::vector<std::string> sweep;
  ScheduleWish schedule;
  std::optional<std::uint32_t> processes;  // of submit torch and mpi
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

Result<JobFile> fill_template(const Session& session, const SubmitArguments& arguments) {
  if (!arguments.file.empty()) {
    return err(ErrorCode::kInvalidArgument, "--file and --template exclude each other");
  }
  const JobTemplates templates =
      find_templates(template_folders(session.terminal.environment, "templates"));
  for (const std::string& trouble : templates.troubles) session.say(escape_for_terminal(trouble));
  DIVVY_TRY(chosen, template_called(templates, arguments.job_template));
  return fill_in(chosen, arguments.set);
}

// The document of the job, checked here so that what is wrong is told with its place.
Result<json::object> make_document(const Session& session, const SubmitArguments& arguments,
                                   const Daemon& daemon, const ClientConfig& config) {
  std::optional<JobFile> file;
  json::object document;
  if (!arguments.file.empty()) {
    DIVVY_TRY(text, read_text(arguments.file));
    DIVVY_TRY(read, JobFile::read(text, arguments.file == "-" ? "stdin" : arguments.file));
    document = read.document();
    file.emplace(std::move(read));
  }
  if (!arguments.job_template.empty()) {
    DIVVY_TRY(filled, fill_template(session, arguments));
    document = filled.document();
    file.emplace(std::move(filled));
  }
  DIVVY_RETURN_IF_ERROR(apply(arguments.flags, arguments.command, document));
  const Status good = complete_document(session, daemon, config, document);
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

// "17" or "17 to 26 (10 jobs)"
std::string numbers_text(const std::vector<Answer>& jobs) {
  if (jobs.size() == 1) return "job " + jobs.front()["id"].text();
  return fmt::format("jobs {} to {}", jobs.front()["id"].text(), jobs.back()["id"].text());
}

// Of several requests as of one.
std::string jobs_text(const std::vector<Answer>& jobs, OutputFormat format) {
  std::string ids;
  std::string items;
  for (const Answer& job : jobs) {
    ids += job["id"].text() + "\n";
    items += (items.empty() ? "" : ",") + job.json();
  }
  if (format == OutputFormat::kName) return ids;
  return write_document(R"({"apiVersion":"divvy/v1","kind":"JobList","items":[)" + items + "]}",
                        format);
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
  std::optional<std::chrono::steady_clock::time_point> until;
  if (timeout) until = std::chrono::steady_clock::now() + *timeout;
  std::ofstream log;
  if (!arguments.log.empty()) log.open(arguments.log, std::ios::app);
  const Session to_log{session.services, session.terminal, session.style,   log,
                       session.err,      session.tree,     session.command, session.choice};
  for (const Answer& job : jobs) {
    const auto id = static_cast<std::uint64_t>(job["id"].number().value_or(0));
    if (arguments.follow || !arguments.log.empty()) {
      const int shown = show_logs(arguments.log.empty() ? session : to_log, id,
                                  {.follow = true, .reached = true, .until = until});
      if (!arguments.log.empty() && !log) {
        session.say(fmt::format("{} could not be written; job {} goes on: divvy logs {}",
                                arguments.log, id, id));
      }
      if (shown != kExitOk && shown != kExitWaitedTooLong) return shown;
    }
    std::optional<std::chrono::seconds> left;
    if (until) {
      left = std::max(
          std::chrono::ceil<std::chrono::seconds>(*until - std::chrono::steady_clock::now()),
          std::chrono::seconds(0));
    }
    const int waited = wait_for_job(session, id,
                                    {.what = WaitFor::kEnded,
                                     .timeout = left,
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

// The name of a sweep: that of its jobs, and something that the next one does not have. With a key
// the same one each time: it is a label of each job, and what is submitted again has to be the
// same.
std::string sweep_name(const json::object& document, const std::string& key) {
  std::string name = "sweep";
  if (const json::value* const given = document.if_contains("name");
      given != nullptr && given->is_string()) {
    name = given->as_string();
  } else if (const json::value* const command = document.if_contains("command");
             command != nullptr && command->is_array() && !command->as_array().empty()) {
    const json::value& first = command->as_array().front();
    if (first.is_string()) name = std::filesystem::path(std::string(first.as_string())).filename();
  }
  const std::string mark = key.empty()
                               ? new_channel_name().substr(0, 6)
                               : fmt::format("{:06x}", std::hash<std::string>()(key) & 0xffffffU);
  return name.substr(0, 100) + "-" + mark;
}

// All of its jobs, or as many as are taken, which is said.
int submit_sweep(const Session& session, const SubmitArguments& arguments,
                 const std::vector<json::object>& documents, const std::string& sweep,
                 OutputFormat format) {
  std::vector<Answer> jobs;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    net::HttpHeaders headers;
    if (!arguments.key.empty()) headers["idempotency-key"] = fmt::format("{}/{}", arguments.key, i);
    const Asked submitted =
        ask(session, "POST", arguments.dry_run ? "/v1/jobs?dry_run=true" : "/v1/jobs",
            json::serialize(documents[i]), headers);
    if (!submitted) {
      if (!jobs.empty()) {
        session.say(fmt::format("of {} {} {} taken: {}; divvy delete -l {}={} cancels what was",
                                counted(documents.size(), "job"), jobs.size(),
                                jobs.size() == 1 ? "was" : "were", numbers_text(jobs), kSweepLabel,
                                sweep));
      }
      return submitted.status();
    }
    for (const Answer& job : submitted.answer()["items"].items()) jobs.push_back(job);
  }
  if (arguments.dry_run) {
    session.say(
        fmt::format("{} would be taken; nothing was submitted", counted(documents.size(), "job")));
    return kExitOk;
  }
  if (jobs.empty()) return kExitError;
  const std::string text = format == OutputFormat::kTable
                               ? fmt::format("sweep {}: {}\n", sweep, numbers_text(jobs))
                               : jobs_text(jobs, format);
  const int shown = session.print(text);
  if (!arguments.quiet) session.say(fmt::format("next: divvy sweep {}", sweep));
  return shown;
}

Result<std::vector<json::object>> sweep_documents(const std::vector<std::string>& axes,
                                                  const std::string& sweep,
                                                  const json::object& document) {
  std::vector<SweepAxis> parsed;
  for (const std::string& text : axes) {
    DIVVY_TRY(axis, parse_sweep_axis(text));
    parsed.push_back(std::move(axis));
  }
  DIVVY_TRY(points, sweep_points(parsed));
  std::vector<json::object> documents;
  for (const SweepPoint& point : points) {
    json::object& job = documents.emplace_back(document);
    DIVVY_RETURN_IF_ERROR(put_sweep_point(point, sweep, job));
    DIVVY_TRY(spec, model::read_job_spec(json::serialize(job)));
    DIVVY_RETURN_IF_ERROR(model::check(spec));
  }
  return documents;
}

Result<int> submit(const Session& session, SubmitArguments arguments) {
  auto parsed_format = parse_output_format(arguments.format, kFormats);
  if (!parsed_format) {
    // As with other queues' submit commands, whose --output is a file.
    return err(parsed_format.error().code,
               "{}; the output of the job goes to a file with --log FILE",
               parsed_format.error().message);
  }
  const OutputFormat format = *parsed_format;
  std::optional<std::chrono::seconds> timeout;
  if (!arguments.timeout.empty()) {
    DIVVY_TRY(parsed, with_context(model::parse_seconds(arguments.timeout), "--timeout"));
    timeout = parsed;
    if (!arguments.wait && !arguments.follow && arguments.log.empty()) {
      return err(ErrorCode::kInvalidArgument, "--timeout needs --wait, --follow or --log");
    }
  }
  if (!arguments.set.empty() && arguments.job_template.empty()) {
    return err(ErrorCode::kInvalidArgument, "--set is for the values of a --template");
  }
  if (arguments.file.empty() && arguments.job_template.empty() && arguments.command.empty() &&
      !arguments.flags.image) {
    return err(ErrorCode::kInvalidArgument,
               "no command was given: divvy submit --gpu 0.3 -- python train.py");
  }
  const ScheduleWish& schedule = arguments.schedule;
  const bool scheduled = !schedule.every.empty();
  const bool excluded = arguments.wait || arguments.follow || arguments.dry_run ||
                        !arguments.log.empty() || !arguments.sweep.empty() ||
                        !arguments.key.empty();
  if (scheduled ? excluded : (schedule.missed || schedule.overlap)) {
    return err(ErrorCode::kInvalidArgument,
               "--missed and --overlap are for --every, which submits nothing now: it excludes "
               "--wait, --follow, --log, --sweep, --key and --dry-run");
  }
  if (!arguments.sweep.empty() &&
      (arguments.wait || arguments.follow || !arguments.log.empty() || arguments.flags.array)) {
    return err(ErrorCode::kInvalidArgument,
               "--sweep makes jobs of their own: it excludes --array, --wait, --follow and --log");
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
  DIVVY_TRY(document, make_document(session, arguments, *daemon, *config));
  if (const Status there = have_daemon(session, *daemon); !there) {
    return session.fail(there.error());
  }
  if (!arguments.sweep.empty()) {
    const std::string sweep = sweep_name(document, arguments.key);
    DIVVY_TRY(documents, sweep_documents(arguments.sweep, sweep, document));
    return submit_sweep(session, arguments, documents, sweep, format);
  }
  if (!arguments.schedule.every.empty()) {
    return submit_schedule(session, arguments.schedule, std::move(document), format);
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

Result<int> submit_torch(const Session& session, SubmitArguments arguments) {
  const std::string name = script_name(arguments.command);
  if (!arguments.flags.name && !name.empty()) arguments.flags.name = name;
  DIVVY_TRY(command, torch_command({.words = arguments.command,
                                    .gpu = arguments.flags.gpu,
                                    .processes = arguments.processes}));
  arguments.command = std::move(command);
  return submit(session, std::move(arguments));
}

Result<int> submit_mpi(const Session& session, SubmitArguments arguments) {
  DIVVY_TRY(daemon, session.daemon());
  if (daemon.is_cluster()) {
    return err(ErrorCode::kInvalidArgument,
               "divvy submit mpi is for one machine; on a cluster, an MPIJob of Kubeflow is placed "
               "by Divvy");
  }
  if (arguments.flags.image || !arguments.file.empty() || !arguments.job_template.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "members of an MPI job are processes of the machine: it takes neither --image, "
               "--file nor --template");
  }
  if (arguments.command.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "no program was given: divvy submit mpi --gpu 1 --members 4 -- ./solver");
  }
  DIVVY_TRY(processes, processes_of_member(arguments.flags.gpu, arguments.processes));
  std::string program = "divvy";
  if (!daemon.is_remote()) {
    std::error_code code;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", code);
    if (!code) program = self.string();
    // Members find the same daemon.
    const auto folder = daemon.options().socket.parent_path();
    program = fmt::format("DIVVY_RUN_DIR={} exec {}", quote_for_shell(folder.string()),
                          quote_for_shell(program));
  } else {
    program =
        "command -v divvy >/dev/null || { echo 'divvy is not there' >&2; exit 127; }; "
        "exec divvy";
  }
  if (!arguments.flags.name) arguments.flags.name = "mpi";
  std::vector<std::string> command{"sh",
                                   "-c",
                                   program + " mpi-member \"$@\"",
                                   "mpi",
                                   new_channel_name(),
                                   fmt::to_string(processes),
                                   "--"};
  command.insert(command.end(), arguments.command.begin(), arguments.command.end());
  arguments.command = std::move(command);
  return submit(session, std::move(arguments));
}

// What a plain job and one with a launcher have both.
void add_submit_options(CLI::App* command, const std::shared_ptr<SubmitArguments>& arguments) {
  add_submit_flags(*command, arguments->flags);
  add_list(*command, "--sweep", arguments->sweep,
           "A job for each value, where the command says {NAME}: lr=0.1,0.01 or seed=0..4",
           "NAME=VALUES");
  command
      ->add_option("--every", arguments->schedule.every,
                   "Again and again at these times: \"0 3 * * *\" as in crontab, or @daily")
      ->type_name("TIMES");
  command
      ->add_option("--missed", arguments->schedule.missed,
                   "With --every, of times when no divvyd ran: skip them (the default) or once")
      ->type_name("WORD");
  command
      ->add_option("--overlap", arguments->schedule.overlap,
                   "With --every, while the last one has not ended: skip (the default) or allow")
      ->type_name("WORD");
  command->add_flag("--dry-run", arguments->dry_run, "Only check it");
  command->add_flag("--wait", arguments->wait, "Wait until it has ended; its exit status is ours");
  command->add_flag("--follow", arguments->follow, "The same, and show its output");
  command
      ->add_option("--log", arguments->log,
                   "Wait until it has ended, and write its output at the end of this file")
      ->type_name("FILE");
  add_list(*command, "--export", arguments->exports, "A variable of your own environment", "NAME");
  command
      ->add_option("--timeout", arguments->timeout,
                   "With --wait, --follow and --log: at most so long")
      ->type_name("TIME");
  command
      ->add_option("--key", arguments->key,
                   "The same key twice is one job: for scripts that try again")
      ->type_name("TEXT");
  command->add_flag("-q,--quiet", arguments->quiet, "No hints");
  add_output(*command, arguments->format, kFormats);
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
  command
      ->add_option("--template", arguments->job_template,
                   "A job file with gaps (divvy templates); options and the command go before it")
      ->type_name("NAME");
  add_list(*command, "--set", arguments->set, "With --template: what stands in a gap", "KEY=VALUE");
  add_submit_options(command, arguments);
  // Options before the word are those of the same job.
  CLI::App* torch = tree.add_below(
      *command, "torch", "A PyTorch job: torchrun in every member, which find each other",
      kSubmitTorchFooter,
      [arguments](const Session& session) { return submit_torch(session, *arguments); });
  tree.takes_command(*torch, arguments->command, 0, "SCRIPT [ARGUMENT...]");
  torch
      ->add_option("--processes", arguments->processes,
                   "Processes of each member (one for each GPU)")
      ->type_name("NUMBER");
  add_submit_options(torch, arguments);
  CLI::App* mpi = tree.add_below(
      *command, "mpi", "An MPI job: mpirun in the first member, its processes in all of them",
      kSubmitMpiFooter,
      [arguments](const Session& session) { return submit_mpi(session, *arguments); });
  tree.takes_command(*mpi, arguments->command, 0, "PROGRAM [ARGUMENT...]");
  mpi->add_option("--processes", arguments->processes,
                  "Processes of each member (one for each GPU)")
      ->type_name("NUMBER");
  add_submit_options(mpi, arguments);
}

}  // namespace divvy::cli
