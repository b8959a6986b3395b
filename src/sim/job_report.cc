#include "sim/job_report.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/text.h"
#include "place/job_order.h"

namespace divvy::sim {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

// File names may hold bytes that are no text; JSON may not.
std::string json_path(std::string_view path) {
  std::size_t at = 0;
  while (at < path.size()) {
    const auto point = first_code_point(path.substr(at));
    if (!point) return json_string(escape_for_terminal(path));
    at += point->size;
  }
  return json_string(path);
}

std::string json_object(const JobSummary& summary) {
  return fmt::format(
      "{{\"policy\":{},\"jobs\":{},\"avg_jct_s\":{:.3f},\"p99_jct_s\":{:.3f},\"makespan_s\":{:.3f},"
      "\"restart_cost\":{},\"share_model\":{},\"starts\":{},\"events\":{},\"trace\":{}}}",
      json_string(summary.policy), summary.jobs, summary.avg_jct_s, summary.p99_jct_s,
      summary.makespan_s, json_string(to_string(summary.restart_cost)),
      json_string(to_string(summary.share)), summary.starts, summary.events,
      json_path(summary.trace));
}

// 1234567.89 as "1,234,567.9".
std::string grouped(double seconds) {
  const std::string text = fmt::format("{:.1f}", seconds);
  const std::size_t whole = text.find('.');
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0) out += ',';
    out += text[i];
  }
  return out;
}

std::string describe(std::span<const JobSummary> summaries, const ClusterShape& cluster) {
  const JobSummary& first = summaries.front();
  const bool sharing = std::any_of(summaries.begin(), summaries.end(), [](const JobSummary& one) {
    return one.share != ShareModel::kNone;
  });
  const std::string_view charged =
      first.restart_cost == RestartCost::kReal
          ? "restarts are charged when a job starts, starts again or moves (real)"
          : "every event charges every running job a restart (protocol)";
  const std::string_view shared =
      !sharing
          ? ""
          : "; jobs of policies that preempt share GPUs as their resource times allow (resources)";
  return fmt::format("{} jobs of {} on {} x {} GPUs; {}{}\n", first.jobs,
                     escape_for_terminal(first.trace), cluster.nodes, cluster.gpus_per_node,
                     charged, shared);
}

}  // namespace

JobSummary summarize(const JobTrace& trace, const ReplayResult& result) {
  DIVVY_CHECK(trace.jobs.size() == result.jobs.size() && !trace.jobs.empty(),
              "{} outcomes of {} jobs", result.jobs.size(), trace.jobs.size());
  JobSummary summary;
  summary.trace = trace.name;
  summary.jobs = trace.jobs.size();
  summary.events = result.events;
  std::vector<double> times;
  times.reserve(trace.jobs.size());
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    times.push_back(result.jobs[i].ended_s - trace.jobs[i].submitted_s);
    summary.avg_jct_s += times.back();
    summary.makespan_s = std::max(summary.makespan_s, result.jobs[i].ended_s);
    summary.starts += result.jobs[i].starts;
  }
  summary.avg_jct_s /= static_cast<double>(times.size());
  const auto at = static_cast<std::size_t>(0.99 * static_cast<double>(times.size()));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(at), times.end());
  summary.p99_jct_s = times[at];
  return summary;
}

std::string to_json(const JobSummary& summary) { return json_object(summary) + "\n"; }

std::string to_json(std::span<const JobSummary> summaries) {
  if (summaries.size() == 1) return to_json(summaries.front());
  std::string out = fmt::format("{{\"trace\":{},\"runs\":[",
                                summaries.empty() ? "\"\"" : json_path(summaries.front().trace));
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    if (i > 0) out += ',';
    out += json_object(summaries[i]);
  }
  out += "]}\n";
  return out;
}

std::string to_table(std::span<const JobSummary> summaries, const ClusterShape& cluster) {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows{{"POLICY", "AVG JCT (s)", "P99 JCT (s)", "MAKESPAN (s)", "STARTS"}};
  for (const auto& summary : summaries)
    rows.push_back({summary.policy, grouped(summary.avg_jct_s), grouped(summary.p99_jct_s),
                    grouped(summary.makespan_s), std::to_string(summary.starts)});
  std::array<std::size_t, 5> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out = summaries.empty() ? "" : describe(summaries, cluster);
  for (const auto& row : rows) {
    out += fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) out += fmt::format("  {:>{}}", row[i], widths[i]);
    out += '\n';
  }
  return out;
}

Result<std::string> run_jobs(const JobsOptions& options) {
  if (options.policies.empty())
    return err(ErrorCode::kInvalidArgument, "no policy is named; name one with --policy");
  DIVVY_RETURN_IF_ERROR(check_shape(options.cluster));
  // Before the trace is read, so that a misspelt name is answered at once.
  std::vector<std::unique_ptr<place::JobOrder>> orders;
  for (const auto& name : options.policies) {
    DIVVY_TRY(order, place::make_job_order(name, options.cluster.gpus()));
    orders.push_back(std::move(order));
  }
  if (options.share != ShareModel::kNone && options.restart_cost != RestartCost::kReal)
    return err(ErrorCode::kInvalidArgument,
               "jobs share GPUs only where restarts cost what they really cost; add "
               "--restart-cost real");
  DIVVY_TRY(trace, read_job_trace(options.trace, options.cluster));
  if (options.share != ShareModel::kNone &&
      std::none_of(trace.jobs.begin(), trace.jobs.end(), can_share))
    return err(ErrorCode::kFailedPrecondition,
               "{}:1: the columns resource_time_0 to resource_time_2 are missing or zero, so it is "
               "not known what jobs do to each other; leave out --share-model",
               escape_for_terminal(trace.name));
  std::vector<JobSummary> summaries;
  for (auto& order : orders) {
    ReplayOptions replay;
    replay.cluster = options.cluster;
    replay.restart_cost = options.restart_cost;
    replay.share = options.share;
    if (options.progress) {
      replay.progress = [&, before = summaries.size()](std::size_t finished) {
        const double part = static_cast<double>(finished) / static_cast<double>(trace.jobs.size());
        options.progress((static_cast<double>(before) + part) / static_cast<double>(orders.size()));
      };
    }
    JobSummary summary = summarize(trace, replay_jobs(trace, *order, replay));
    summary.policy = order->name();
    summary.restart_cost = options.restart_cost;
    summary.share = order->preempts() ? options.share : ShareModel::kNone;
    summaries.push_back(std::move(summary));
  }
  return options.json ? to_json(summaries) : to_table(summaries, options.cluster);
}

}  // namespace divvy::sim
