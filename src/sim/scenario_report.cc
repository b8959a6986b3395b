#include "sim/scenario_report.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "place/policy.h"

namespace divvy::sim {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto point = first_code_point(text);
    const std::string_view piece = text.substr(0, point ? point->size : 1);
    if (!point) {
      out += "\\ufffd";
    } else if (point->value == '"' || point->value == '\\') {
      out += '\\';
      out += piece;
    } else if (point->value < 0x20 || point->value == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(point->value));
    } else {
      out += piece;
    }
    text.remove_prefix(piece.size());
  }
  out += '"';
  return out;
}

std::string json_time(const std::optional<place::Instant>& time) {
  return time ? fmt::format("{}", *time) : "null";
}

template <typename Items, typename Write>
std::string json_list(const Items& items, const Write& write) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() != 1) out += ',';
    out += write(item);
  }
  out += ']';
  return out;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i != 0) line += "  ";
      line += row[i];
      if (i + 1 != row.size()) line.append(widths[i] - display_width(row[i]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string shown_time(const std::optional<place::Instant>& time) {
  return time ? fmt::format("{}", *time) : "-";
}

}  // namespace

std::string to_table(const ScenarioReport& report) {
  std::string out = fmt::format("{}, policy {}\n\n", escape_for_terminal(report.file),
                                escape_for_terminal(report.policy));
  std::vector<std::vector<std::string>> rows{{"TIME", "JOB", "EVENT", "DETAIL"}};
  for (const TimelineEntry& entry : report.timeline) {
    rows.push_back(
        {fmt::format("{}", entry.at), entry.job, entry.event, escape_for_terminal(entry.detail)});
  }
  out += aligned(rows) + "\n";
  rows = {{"JOB", "STATE", "SUBMITTED", "STARTED", "ENDED", "STARTS"}};
  for (const ScenarioJobOutcome& job : report.jobs) {
    rows.push_back({job.name, std::string(to_string(job.state)), fmt::format("{}", job.submitted),
                    shown_time(job.started), shown_time(job.ended), fmt::format("{}", job.starts)});
  }
  if (!report.jobs.empty()) out += aligned(rows) + "\n";
  out += fmt::format("{:.1f} % of the GPUs in use until {}\n", 100 * report.gpu_use, report.end);
  for (const ExpectationOutcome& expectation : report.expectations) {
    if (expectation.passed) continue;
    out +=
        fmt::format("{}:{}: expected {}; {}\n", escape_for_terminal(report.file), expectation.line,
                    escape_for_terminal(expectation.text), escape_for_terminal(expectation.found));
  }
  const std::size_t failed = report.failed();
  out += failed == 0
             ? fmt::format("{} expectations, all met\n", report.expectations.size())
             : fmt::format("{} of {} expectations not met\n", failed, report.expectations.size());
  return out;
}

std::string to_json(const ScenarioReport& report) {
  const std::string timeline = json_list(report.timeline, [](const TimelineEntry& entry) {
    return fmt::format(R"({{"at_s":{},"job":{},"event":{},"detail":{}}})", entry.at,
                       entry.job.empty() ? "null" : json_string(entry.job),
                       json_string(entry.event), json_string(entry.detail));
  });
  const std::string jobs = json_list(report.jobs, [](const ScenarioJobOutcome& job) {
    return fmt::format(
        R"({{"name":{},"state":{},"submitted_s":{},"started_s":{},"ended_s":{},"starts":{}}})",
        json_string(job.name), json_string(to_string(job.state)), job.submitted,
        json_time(job.started), json_time(job.ended), job.starts);
  });
  const std::string expectations =
      json_list(report.expectations, [](const ExpectationOutcome& expectation) {
        return fmt::format(R"({{"line":{},"text":{},"passed":{},"found":{}}})", expectation.line,
                           json_string(expectation.text), expectation.passed,
                           json_string(expectation.found));
      });
  return fmt::format(
      R"({{"scenario":{},"policy":{},"passed":{},"end_s":{},"gpu_use":{:.6f},"timeline":{},"jobs":{},"expectations":{}}})"
      "\n",
      json_string(report.file), json_string(report.policy), report.failed() == 0, report.end,
      report.gpu_use, timeline, jobs, expectations);
}

Result<ClusterAnswer> run_cluster(const ClusterOptions& options) {
  // Before the file is read, so that a misspelt name is answered at once.
  if (options.policy) DIVVY_RETURN_IF_ERROR(place::make_policy(*options.policy));
  DIVVY_TRY(scenario, read_scenario(options.scenario));
  DIVVY_TRY(report, run_scenario(scenario, options.policy));
  return ClusterAnswer{options.json ? to_json(report) : to_table(report), report.failed() == 0};
}

}  // namespace divvy::sim
