// `divvy audit`: who changed what, from where, when, and what became of it.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/job_view.h"
#include "cli/list_view.h"
#include "cli/people_help_texts.h"
#include "cli/session.h"
#include "cli/since.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kAuditFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                          OutputFormat::kJson,  OutputFormat::kYaml,
                                          OutputFormat::kName,  OutputFormat::kCsv};
// What the API gives at once.
constexpr std::uint64_t kPage = 1000;
constexpr std::uint64_t kMostLines = 1'000'000;

struct AuditArguments {
  std::string user;
  std::string action;
  std::string since;
  std::string before;
  std::uint64_t lines = 100;
  std::string format = "table";
};

// As HTTP has it, in a word.
Cell result_of(const Answer& entry) {
  const auto status = entry["status"].number();
  if (!status) return Cell("no answer", Color::kYellow);
  if (*status < 400) return Cell("done");
  return Cell(*status == 403 ? "denied" : "refused", Color::kRed);
}

ListView audit_view() {
  ListView view;
  view.name = "number";
  view.nothing = "nothing was asked for that changes something";
  view.columns = {
      {.header = "WHEN",
       .cell = [](const Answer& one) { return Cell(moment_text(one["unixMilliseconds"])); },
       .number = [](const Answer& one) { return one["unixMilliseconds"].number(); }},
      text_column("USER", "user"),
      text_column("FROM", "from"),
      text_column("TOKEN", "token", true),
      text_column("ACTION", "action"),
      text_column("OBJECT", "object"),
      {.header = "RESULT", .cell = result_of},
      text_column("OUTCOME", "outcome")};
  return view;
}

Result<int> audit(const Session& session, const AuditArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kAuditFormats));
  if (arguments.lines == 0 || arguments.lines > kMostLines) {
    return err(ErrorCode::kInvalidArgument, "--lines is a number from 1 to {}", kMostLines);
  }
  QueryParts query;
  if (!arguments.user.empty()) query.emplace_back("user", arguments.user);
  if (!arguments.action.empty()) query.emplace_back("action", arguments.action);
  if (!arguments.since.empty()) {
    DIVVY_TRY(since, parse_since(arguments.since, session.now()));
    query.emplace_back("since", std::to_string(since));
  }
  if (!arguments.before.empty()) {
    DIVVY_TRY(before, parse_since(arguments.before, session.now()));
    query.emplace_back("before", std::to_string(before));
  }
  // Page by page, so that all of a year can be had.
  json::array items;
  std::string next;
  do {
    QueryParts page = query;
    page.emplace_back("limit", std::to_string(std::min(kPage, arguments.lines - items.size())));
    if (!next.empty()) page.emplace_back("after", next);
    const Asked asked = ask(session, "GET", "/v1/audit" + write_query(page));
    if (!asked) return asked.status();
    json::value document = json::parse(asked.body());
    for (json::value& one : document.at("items").as_array()) items.push_back(std::move(one));
    next = asked.answer()["next"].text();
  } while (!next.empty() && items.size() < arguments.lines);
  const json::object document{
      {"apiVersion", "divvy/v1"}, {"kind", "AuditLog"}, {"items", std::move(items)}};
  DIVVY_TRY(text, show_list(audit_view(), json::serialize(document), format, "", session.style));
  return session.print(text);
}

}  // namespace

void add_audit_command(CommandTree& tree) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command =
      tree.add(heading::kPeople, "audit", "Who changed what, from where and when", kAuditFooter,
               [arguments](const Session& session) { return audit(session, *arguments); });
  command->add_option("--since", arguments->since, "From: 30d, 2026-11-01")->type_name("TIME");
  command->add_option("--before", arguments->before, "Until")->type_name("TIME");
  command->add_option("--user", arguments->user, "Only what this user asked for")
      ->type_name("USER");
  command->add_option("--action", arguments->action, "Only this: submitJob, openChannel, ...")
      ->type_name("WORD");
  command->add_option("-n,--lines", arguments->lines, "The newest so many (100)")
      ->type_name("NUMBER");
  add_output(*command, arguments->format, kAuditFormats);
}

}  // namespace divvy::cli
