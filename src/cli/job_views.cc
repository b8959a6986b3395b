// Commands that show jobs: list, get, describe, explain.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_reference.h"
#include "cli/job_view.h"
#include "cli/job_watch.h"
#include "cli/label_selector.h"
#include "cli/since.h"
#include "model/job.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kOneFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                        OutputFormat::kJson,  OutputFormat::kYaml,
                                        OutputFormat::kName,  OutputFormat::kCsv};
constexpr OutputFormat kTextFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                         OutputFormat::kYaml};
constexpr const char* kUnfinished = "queued,starting,running,stopping,suspended";
constexpr std::size_t kMostPerPage = 1000;

struct ListArguments {
  std::string format = "table";
  std::string sort_by;
  bool all = false;
  bool mine = false;
  bool watch = false;
  std::vector<std::string> states;
  std::vector<std::string> labels;
  LabelSelector selector{};  // from them
  std::string user;
  std::string queue;
  std::string name;
  std::string array;
  std::string since;
  std::uint32_t limit = 0;  // 0: all of them
};

QueryParts filters(const ListArguments& arguments) {
  std::string states = fmt::format("{}", fmt::join(arguments.states, ","));
  if (states.empty() && !arguments.all) states = kUnfinished;
  return {{"state", states},        {"owner", arguments.user},  {"queue", arguments.queue},
          {"name", arguments.name}, {"array", arguments.array}, {"since", arguments.since}};
}

bool is_unfiltered(const ListArguments& arguments) {
  return arguments.states.empty() && arguments.user.empty() && arguments.queue.empty() &&
         arguments.name.empty() && arguments.array.empty() && arguments.since.empty() &&
         arguments.selector.empty();
}

// All pages as one document, or the exit status.
tl::expected<std::string, int> fetch(const Session& session, const ListArguments& arguments) {
  std::string items;
  std::string after;
  for (std::size_t left = arguments.limit == 0 ? SIZE_MAX : arguments.limit; left > 0;) {
    // Of a page, labels may leave little.
    const std::size_t most =
        arguments.selector.empty() ? std::min(left, kMostPerPage) : kMostPerPage;
    QueryParts query = filters(arguments);
    query.emplace_back("after", after);
    query.emplace_back("limit", std::to_string(most));
    const Asked page = ask(session, "GET", "/v1/jobs" + write_query(query));
    if (!page) return tl::unexpected(page.status());
    const auto jobs = page.answer()["items"].items();
    for (const Answer& job : jobs) {
      if (left == 0 || !arguments.selector.matches(job)) continue;
      items += (items.empty() ? "" : ",") + job.json();
      --left;
    }
    after = page.answer()["next"].text();
    if (after.empty() || jobs.empty()) break;
  }
  return R"({"apiVersion":"divvy/v1","kind":"JobList","items":[)" + items + "]}";
}

// Empty where the daemon does not tell: then GPUs have their UUIDs as names.
GpuIndices find_gpu_indices(const Session& session) {
  const auto daemon = session.daemon();
  const auto reply = daemon ? daemon->ask("GET", "/v1/gpus") : Result<Reply>(Reply{});
  const auto answer = reply && reply->ok() ? Answer::parse(reply->body) : Result<Answer>(Answer());
  return answer ? gpu_indices(*answer) : GpuIndices();
}

// Whether a job that something happened to belongs into the list; that it has left it is news too,
// so its state does not matter.
bool is_listed(const Answer& job, const ListArguments& arguments) {
  const auto fits = [&](const char* field, const std::string& wanted) {
    return wanted.empty() || job[field].raw() == wanted;
  };
  return fits("owner", arguments.user) && fits("queue", arguments.queue) &&
         fits("name", arguments.name) && fits("array", arguments.array) &&
         arguments.selector.matches(job);
}

// The list, and then a line for each change.
int watch_list(const Session& session, const ListArguments& arguments, OutputFormat format) {
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  const DetachOnInterrupt detach("stopped looking; the jobs go on");
  std::vector<Answer> known;
  int status = kExitOk;
  const auto line = [&](const Answer& job) -> std::string {
    if (format == OutputFormat::kJson) return job.json() + "\n";
    if (format == OutputFormat::kName) return job["id"].text() + "\n";
    const std::string id = job["id"].text();
    const auto old =
        std::ranges::find_if(known, [&](const Answer& other) { return other["id"].text() == id; });
    const auto row = static_cast<std::size_t>(old - known.begin());
    if (old == known.end()) {
      known.push_back(job);
    } else {
      *old = job;
    }
    // Aligned with what stands above it.
    const std::string table = show_rows(job_list_view(session.now()), known,
                                        format == OutputFormat::kWide, session.style);
    return std::string(split(table, '\n').at(row + 1)) + "\n";
  };
  const int watched =
      watch_jobs(session, *daemon, {.from_now = true},
                 {.connected =
                      [&] {
                        const auto document = fetch(session, arguments);
                        if (!document) {
                          status = document.error();
                          return false;
                        }
                        if (const auto answer = Answer::parse(*document))
                          known = (*answer)["items"].items();
                        if (format == OutputFormat::kJson) {
                          for (const Answer& job : known) session.out << job.json() << "\n";
                        } else {
                          const auto text = show_list(job_list_view(session.now()), *document,
                                                      format, arguments.sort_by, session.style);
                          session.out << (text ? *text : "");
                        }
                        session.out << std::flush;
                        return static_cast<bool>(session.out);
                      },
                  .event =
                      [&](const Answer& event) {
                        if (event["job"].empty()) return true;
                        const auto reply = daemon->ask("GET", "/v1/jobs/" + event["job"].text());
                        if (!reply || !reply->ok()) return true;
                        const auto job = Answer::parse(reply->body);
                        if (job && is_listed(*job, arguments))
                          session.out << line(*job) << std::flush;
                        return static_cast<bool>(session.out);
                      }});
  if (!session.out) return kExitError;
  return status != kExitOk ? status : watched;
}

Result<int> list(const Session& session, ListArguments arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kListFormats));
  std::vector<Answer> none;
  DIVVY_RETURN_IF_ERROR(sort_items(job_list_view(session.now()), arguments.sort_by, none));
  for (const std::string& state : arguments.states) {
    DIVVY_RETURN_IF_ERROR(with_context(model::parse_job_state(state), "--state"));
  }
  DIVVY_TRY(selector, LabelSelector::parse(arguments.labels));
  arguments.selector = std::move(selector);
  if (!arguments.since.empty()) {
    DIVVY_TRY(since, parse_since(arguments.since, session.now()));
    arguments.since = std::to_string(since);
  }
  if (arguments.mine) {
    const Asked me = ask(session, "GET", "/v1/whoami");
    if (!me) return me.status();
    arguments.user = me.answer()["name"].raw();
  }
  if (arguments.watch) {
    if (format == OutputFormat::kYaml || format == OutputFormat::kCsv) {
      return err(ErrorCode::kInvalidArgument, "--watch prints table, wide, json or name");
    }
    return watch_list(session, arguments, format);
  }
  const auto document = fetch(session, arguments);
  if (!document) return document.error();
  const bool places = format == OutputFormat::kWide || format == OutputFormat::kCsv;
  ListView view = job_list_view(session.now(), places ? find_gpu_indices(session) : GpuIndices());
  if (is_unfiltered(arguments)) {
    view.nothing =
        arguments.all ? "there are no jobs; `divvy submit` makes one" : "no job waits or runs";
  }
  DIVVY_TRY(text, show_list(view, *document, format, arguments.sort_by, session.style));
  const int status = session.print(text);
  if (format == OutputFormat::kTable && !arguments.all && arguments.states.empty() &&
      session.terminal.errors_are_terminal) {
    session.say("`divvy list --all` also shows those that have ended");
  }
  return status;
}

void add_list_command(CommandTree& tree) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "list", "List jobs", kListFooter,
               [arguments](const Session& session) { return list(session, *arguments); });
  command->add_flag("-a,--all", arguments->all, "Also jobs that have ended");
  command->add_flag("--mine", arguments->mine, "Only your own");
  add_list(*command, "--state", arguments->states,
           "Only these: queued, starting, running, stopping, suspended, succeeded, failed or "
           "cancelled",
           "STATE")
      ->delimiter(',');
  command->add_option("--user", arguments->user, "Only jobs of this user")->type_name("USER");
  command->add_option("--queue", arguments->queue, "Only those in this queue")->type_name("QUEUE");
  command->add_option("--name", arguments->name, "Only those of this name")->type_name("NAME");
  add_label_selector(*command, arguments->labels);
  command->add_option("--array", arguments->array, "Only the tasks of this array")
      ->type_name("JOB");
  command
      ->add_option("--since", arguments->since,
                   "Only those submitted since: 30m, 2d, 2026-11-15T08:00:00Z")
      ->type_name("TIME");
  command->add_option("--limit", arguments->limit, "At most so many, the newest")
      ->type_name("NUMBER");
  command->add_option("--sort-by", arguments->sort_by, "A column; -age turns it round")
      ->type_name("COLUMN");
  command->add_flag("-w,--watch", arguments->watch, "Then a line for every change");
  add_output(*command, arguments->format, kListFormats);
}

struct OneArguments {
  std::string job;
  std::string format = "table";
};

Result<int> get(const Session& session, const OneArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kOneFormats));
  const auto id = find_job(session, arguments.job, JobMeant::kNewest);
  if (!id) return id.error();
  const Asked job = ask(session, "GET", fmt::format("/v1/jobs/{}", *id));
  if (!job) return job.status();
  switch (format) {
    case OutputFormat::kTable:
      return session.print(
          job_summary(job.answer(), find_gpu_indices(session), session.now(), session.style));
    case OutputFormat::kName:
      return session.print(job.answer()["id"].text() + "\n");
    case OutputFormat::kWide:
      return session.print(show_rows(job_list_view(session.now(), find_gpu_indices(session)),
                                     {job.answer()}, true, session.style));
    case OutputFormat::kCsv: {
      DIVVY_TRY(text, show_list(job_list_view(session.now(), find_gpu_indices(session)),
                                R"({"items":[)" + job.body() + "]}", format, "", session.style));
      return session.print(text);
    }
    default:
      return session.print(write_document(job.body(), format));
  }
}

Result<int> describe(const Session& session, const OneArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kTextFormats));
  const auto id = find_job(session, arguments.job, JobMeant::kNewest);
  if (!id) return id.error();
  const Asked job = ask(session, "GET", fmt::format("/v1/jobs/{}", *id));
  if (!job) return job.status();
  // Not everybody may see them; what everybody may see is shown all the same.
  Answer attempts;
  std::string attempts_body = "null";
  if (!job.answer()["spec"].empty()) {
    const Asked tried = ask(session, "GET", fmt::format("/v1/jobs/{}/attempts", *id));
    if (!tried) return tried.status();
    attempts = tried.answer();
    attempts_body = attempts["items"].json();
  }
  if (format == OutputFormat::kTable) {
    return session.print(job_description(job.answer(), attempts, find_gpu_indices(session),
                                         session.now(), session.style));
  }
  return session.print(write_document(
      fmt::format(R"({{"job":{},"attempts":{}}})", job.answer().json(), attempts_body), format));
}

Result<int> explain(const Session& session, const OneArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kTextFormats));
  const auto id = find_job(session, arguments.job, JobMeant::kNewest);
  if (!id) return id.error();
  const Asked why = ask(session, "GET", fmt::format("/v1/jobs/{}/explain", *id));
  if (!why) return why.status();
  if (format != OutputFormat::kTable) return session.print(write_document(why.body(), format));
  return session.print(job_explanation(why.answer(), session.now(), session.style));
}

using Show = Result<int> (*)(const Session&, const OneArguments&);

void add_one(CommandTree& tree, const char* name, const char* summary, const char* footer,
             Show show, std::span<const OutputFormat> formats) {
  auto arguments = std::make_shared<OneArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, name, summary, footer,
               [arguments, show](const Session& session) { return show(session, *arguments); });
  command->add_option("JOB", arguments->job, "Its number or name")->required();
  add_output(*command, arguments->format, formats);
}

}  // namespace

void add_job_views(CommandTree& tree) {
  add_list_command(tree);
  add_one(tree, "get", "How a job stands; of one that waits: its place, why, and when it starts",
          kGetFooter, get, kOneFormats);
  add_one(tree, "describe", "Everything about a job: what was asked for, history, attempts",
          kDescribeFooter, describe, kTextFormats);
  add_one(tree, "explain", "What stands in a job's way, GPU by GPU", kExplainFooter, explain,
          kTextFormats);
}

}  // namespace divvy::cli
