#include "cli/kube_forecast.h"

#include <boost/json.hpp>
#include <charconv>

#include "cli/exit_codes.h"
#include "cli/job_view.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/sim_cluster.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                     OutputFormat::kYaml};

json::object request_of(const SimClusterOptions& options) {
  json::object request;
  if (options.add_nodes > 0) {
    json::object nodes{{"count", options.add_nodes}};
    if (options.gpus > 0) nodes["gpus"] = options.gpus;
    if (!options.like.empty()) nodes["like"] = options.like;
    request["add"] = json::array{std::move(nodes)};
  }
  if (!options.without.empty()) {
    json::array names;
    for (const std::string& name : options.without) names.emplace_back(name);
    request["without"] = std::move(names);
  }
  if (!options.policy.empty()) request["policy"] = options.policy;
  if (options.no_preemption) request["preemption"] = false;
  return request;
}

std::string time_of(const Answer& seconds) {
  const auto number = seconds.number();
  return number ? span_text(*number) : "-";
}

// "2.5", however it was sent.
std::string decimal(const std::string& number) {
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  return read.ec == std::errc() ? fmt::format("{:g}", value) : "-";
}

// Waiting jobs that would not start within what is looked at.
std::string starts(const Answer& seconds) {
  return seconds.empty() ? "not yet" : "in " + time_of(seconds);
}

std::string table(const Answer& answer, const Style& style) {
  Table sums;
  sums.add_column("");
  sums.add_column("AS IT IS", Align::kRight);
  sums.add_column("CHANGED", Align::kRight);
  const auto row = [&](const char* name, const auto& text) {
    sums.add_row({name, text(answer["asItIs"]), text(answer["changed"])});
  };
  row("GPUs", [](const Answer& one) { return Cell(decimal(one["gpus"].raw())); });
  row("waiting", [](const Answer& one) { return Cell(one["waits"]["waiting"].text()); });
  row("never start", [](const Answer& one) { return Cell(one["waits"]["notStarted"].text()); });
  row("median wait",
      [](const Answer& one) { return Cell(time_of(one["waits"]["medianSeconds"])); });
  row("longest wait",
      [](const Answer& one) { return Cell(time_of(one["waits"]["longestSeconds"])); });
  row("restarts", [](const Answer& one) { return Cell(one["restarts"].text()); });
  std::string text = sums.render(style);
  const auto jobs = answer["jobs"].items();
  if (!jobs.empty()) {
    Table line;
    for (const char* const header : {"NAME", "USER", "QUEUE", "STARTS", "WOULD START"}) {
      line.add_column(header);
    }
    for (const Answer& job : jobs) {
      line.add_row({job["name"].text(), job["owner"].text(), job["queue"].text(),
                    starts(job["startsInSeconds"]), starts(job["wouldStartInSeconds"])});
    }
    text += "\n" + line.render(style);
  }
  text += "\nAssumed:\n";
  for (const Answer& one : answer["assumptions"].items()) text += "  " + one.text() + "\n";
  return text;
}

}  // namespace

Result<int> forecast_cluster(const Session& session, const SimClusterOptions& options) {
  DIVVY_TRY(format, parse_output_format(options.format, kFormats));
  const Asked asked = ask(session, "POST", "/v1/what-if", json::serialize(request_of(options)));
  if (!asked) return asked.status();
  if (format != OutputFormat::kTable) return session.print(write_document(asked.body(), format));
  return session.print(table(asked.answer(), session.style));
}

}  // namespace divvy::cli
