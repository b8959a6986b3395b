// `divvy sweep`: what the jobs of a sweep reported, beside each other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <memory>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_view.h"
#include "cli/list_view.h"
#include "cli/log_follow.h"
#include "cli/session.h"
#include "cli/sweep.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kLastLines = 200;
constexpr std::size_t kMostColumns = 8;

struct SweepArguments {
  std::string sweep;
  std::vector<std::string> metrics;
  std::string sort_by;
  std::string format = "table";
};

// The last lines of its output, without times; nothing of one that has not begun.
std::string last_output(const Session& session, std::uint64_t job) {
  const auto daemon = session.daemon();
  std::string text;
  if (!daemon) return text;
  LogFollow log(false, [&](std::string_view line) { text += line; });
  (void)daemon->follow(
      {.method = "GET",
       .path = fmt::format("/v1/jobs/{}/logs?timestamps=true&tail={}", job, kLastLines)},
      [&](std::string_view piece) {
        log.take(piece);
        return true;
      });
  log.end();
  return text;
}

json::object row_of(const Session& session, const Answer& job) {
  const auto id = job["id"].number().value_or(0);
  json::object values;
  const Answer labels = job["spec"]["labels"];
  for (const std::string& name : labels.names()) {
    if (!name.starts_with(kSweepValueLabel)) continue;
    values[name.substr(kSweepValueLabel.size())] = labels[name].raw();
  }
  json::object metrics;
  for (const auto& [name, value] :
       metrics_in(last_output(session, static_cast<std::uint64_t>(id)))) {
    // JSON has no other numbers.
    metrics[name] = std::isfinite(value) ? json::value(value) : json::value(fmt::to_string(value));
  }
  return {{"id", id},
          {"state", job["state"].raw()},
          {"values", std::move(values)},
          {"metrics", std::move(metrics)}};
}

// Every name that is in the field of any of the rows, in the order in which they come.
std::vector<std::string> names_in(const json::array& rows, std::string_view field) {
  std::vector<std::string> names;
  for (const json::value& row : rows) {
    for (const auto& entry : row.at(field).as_object()) {
      const std::string name(entry.key());
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// Decimal digits enough to tell results apart; a whole number stays one.
std::string number_text(const Answer& value) {
  if (value.empty()) return "";
  return fmt::format("{:.6g}", std::strtod(value.raw().c_str(), nullptr));
}

// As far as whole numbers can tell them apart: millionths. What is no number is worse than any
// that is.
std::int64_t rank_of(const Answer& value) {
  constexpr double kMost = 9e18;
  const double number = std::strtod(value.raw().c_str(), nullptr);
  return static_cast<std::int64_t>(std::isnan(number) ? kMost
                                                      : std::clamp(number * 1e6, -kMost, kMost));
}

ListView view_of(const json::array& rows, const std::vector<std::string>& wanted) {
  ListView view;
  view.name = "id";
  view.columns = {number_column("ID", "id"), {.header = "STATE", .cell = [](const Answer& row) {
                                                const std::string state = row["state"].text();
                                                return Cell(state, color_of_state(state));
                                              }}};
  for (const std::string& name : names_in(rows, "values")) {
    view.columns.push_back({.header = escape_for_terminal(name), .cell = [name](const Answer& row) {
                              return Cell(row["values"][name].text());
                            }});
  }
  std::vector<std::string> metrics = wanted.empty() ? names_in(rows, "metrics") : wanted;
  if (metrics.size() > kMostColumns) metrics.resize(kMostColumns);
  for (const std::string& name : metrics) {
    view.columns.push_back(
        {.header = escape_for_terminal(name),
         .cell = [name](const Answer& row) { return Cell(number_text(row["metrics"][name])); },
         .align = Align::kRight,
         .number = [name](const Answer& row) -> std::optional<std::int64_t> {
           const Answer value = row["metrics"][name];
           return value.empty() ? std::nullopt : std::optional(rank_of(value));
         }});
  }
  return view;
}

Result<int> sweep(const Session& session, const SweepArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kListFormats));
  json::array rows;
  const Asked me = ask(session, "GET", "/v1/whoami");
  if (!me) return me.status();
  for (std::string after;;) {
    const Asked page = ask(session, "GET",
                           "/v1/jobs" + write_query({{"owner", me.answer()["name"].raw()},
                                                     {"after", after},
                                                     {"limit", "1000"}}));
    if (!page) return page.status();
    for (const Answer& job : page.answer()["items"].items()) {
      if (job["spec"]["labels"][kSweepLabel].raw() == arguments.sweep) {
        rows.push_back(row_of(session, job));
      }
    }
    after = page.answer()["next"].text();
    if (after.empty()) break;
  }
  if (rows.empty()) {
    session.say(fmt::format("you have no sweep {}; `divvy list --all -l sweep` shows their jobs",
                            escape_for_terminal(arguments.sweep)));
    return kExitNotFound;
  }
  // Newest first, as lists come; people think of a sweep in its own order.
  std::ranges::reverse(rows);
  const ListView view = view_of(rows, arguments.metrics);
  const std::string document = json::serialize(json::object{
      {"apiVersion", "divvy/v1"}, {"kind", "Sweep"}, {"name", arguments.sweep}, {"items", rows}});
  DIVVY_TRY(text, show_list(view, document, format, arguments.sort_by, session.style));
  return session.print(text);
}

}  // namespace

void add_sweep_command(CommandTree& tree) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = tree.add(
      heading::kJobs, "sweep", "What the jobs of a sweep reported, beside each other", kSweepFooter,
      [arguments](const Session& session) { return sweep(session, *arguments); });
  command->add_option("SWEEP", arguments->sweep, "Its name, as submit printed it")->required();
  add_list(*command, "--metric", arguments->metrics, "Only this number of what they printed",
           "NAME");
  command->add_option("--sort-by", arguments->sort_by, "A column; -loss turns it round")
      ->type_name("COLUMN");
  add_output(*command, arguments->format, kListFormats);
}

}  // namespace divvy::cli
