#include "cli/top_tables_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/help_texts.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/top_screen.h"
#include "cli/top_tables.h"

namespace divvy::cli {
namespace {

struct TopTable {
  ListView (*view)();
  std::string (*document)(const Answer& stats, const Answer& jobs);
};

struct TopTableArguments {
  std::string format;  // empty: a table, again and again where that is a terminal
  std::string sort_by;
  bool once = false;
};

constexpr const char* kActiveJobs = "/v1/jobs?state=starting,running,stopping&limit=1000";

Result<std::string> draw(const TopTable& table, const Answer& stats, const Answer& jobs,
                         const TopTableArguments& arguments, const Style& style) {
  DIVVY_TRY(format, parse_output_format(arguments.format.empty() ? "table" : arguments.format,
                                        kListFormats));
  return show_list(table.view(), table.document(stats, jobs), format, arguments.sort_by, style);
}

// What is not understood is left out: numbers are worth looking at without names.
Answer active_jobs(const Daemon& daemon) {
  const auto reply = daemon.ask("GET", kActiveJobs);
  if (!reply || !reply->ok()) return {};
  return Answer::parse(reply->body).value_or(Answer());
}

Result<int> watch(const Session& session, const Daemon& daemon, const TopTable& table,
                  const TopTableArguments& arguments) {
  // The screen has colours of its own.
  Style plain = session.style;
  plain.color = false;
  const auto look = [&]() -> Result<std::string> {
    DIVVY_TRY(reply, daemon.ask("GET", "/v1/stats"));
    if (!reply.ok()) return err(ErrorCode::kUnavailable, "{}", problem_text(reply));
    DIVVY_TRY(stats, Answer::parse(reply.body));
    return draw(table, stats, active_jobs(daemon), arguments, plain);
  };
  if (const Status watched = run_table_screen(look, session.style); !watched) {
    return session.fail(watched.error());
  }
  return 0;
}

Result<int> show(const Session& session, const TopTable& table,
                 const TopTableArguments& arguments) {
  // What is wrong with the options is said before anybody is asked.
  DIVVY_TRY(tried, draw(table, {}, {}, arguments, session.style));
  static_cast<void>(tried);
  const Asked stats = ask(session, "GET", "/v1/stats");
  if (!stats) return stats.status();
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  const bool live = arguments.format.empty() && !arguments.once && ::isatty(STDIN_FILENO) != 0 &&
                    ::isatty(STDOUT_FILENO) != 0;
  if (live) return watch(session, *daemon, table, arguments);
  DIVVY_TRY(text, draw(table, stats.answer(), active_jobs(*daemon), arguments, session.style));
  return session.print(text);
}

void add_top_table(CommandTree& tree, CLI::App& top, const std::string& name,
                   const std::string& summary, const char* footer, const TopTable& table) {
  auto arguments = std::make_shared<TopTableArguments>();
  CLI::App* command = tree.add_below(
      top, name, summary, footer,
      [table, arguments](const Session& session) { return show(session, table, *arguments); });
  command->add_option("--sort-by", arguments->sort_by, "A column; -used turns it round")
      ->type_name("COLUMN");
  command->add_flag("--once", arguments->once, "Print once and end");
  add_output(*command, arguments->format, kListFormats);
}

}  // namespace

void add_top_tables(CommandTree& tree, CLI::App& top) {
  add_top_table(tree, top, "nodes", "What each node has, holds and uses, and who waits there",
                kTopNodesFooter, {.view = node_use_view, .document = node_use_document});
  add_top_table(tree, top, "jobs", "What running jobs hold and use, the busiest first",
                kTopJobsFooter, {.view = job_use_view, .document = job_use_document});
}

}  // namespace divvy::cli
