#include "cli/sim_pack.h"

#include <fmt/format.h>

#include <ostream>
#include <span>
#include <utility>

#include "base/text.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/sim_command.h"
#include "cli/table.h"
#include "place/policy.h"
#include "sim/pack_replay.h"
#include "sim/pack_report.h"
#include "sim/pack_trace.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                     OutputFormat::kYaml};

struct Input {
  sim::PackInput cluster;
  std::vector<sim::PackSequence> sequences;
};

Result<Input> read_input(const SimPackOptions& options) {
  Input input;
  DIVVY_TRY(nodes, sim::CsvTable::read(options.nodes));
  DIVVY_TRY(node_specs, sim::read_nodes(nodes));
  input.cluster.nodes = std::move(node_specs);
  DIVVY_TRY(pods, sim::CsvTable::read(options.pods));
  DIVVY_TRY(pod_list, sim::read_pods(pods));
  input.cluster.pods = std::move(pod_list);
  const sim::PodIndex index(input.cluster.pods);
  for (const std::string& path : options.sequences) {
    DIVVY_TRY(sequence, sim::read_sequence(path, index));
    input.sequences.push_back(std::move(sequence));
  }
  return input;
}

Result<std::vector<sim::PackReport>> replay(const Input& input,
                                            const std::vector<std::string>& policies,
                                            std::uint64_t seed, Progress& progress) {
  std::size_t total = 0;
  for (const sim::PackSequence& sequence : input.sequences) total += sequence.arrivals.size();
  total *= policies.size();
  std::size_t before = 0;
  std::vector<sim::PackReport> reports;
  for (const std::string& policy : policies) {
    sim::PackReport report{.policy = policy, .seed = seed, .runs = {}};
    for (std::size_t i = 0; i < input.sequences.size(); ++i) {
      const sim::PackSequence& sequence = input.sequences[i];
      const std::string what =
          fmt::format("{}, sequence {} of {}", policy, i + 1, input.sequences.size());
      DIVVY_TRY(run, sim::replay_pack(
                         input.cluster, sequence,
                         {.policy = policy, .seed = seed + i, .progress = [&](std::size_t arrived) {
                            progress.show(before + arrived, total, what);
                          }}));
      report.runs.push_back(std::move(run));
      before += sequence.arrivals.size();
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

void print_table(std::span<const sim::PackReport> reports, const sim::LevelFilter& levels,
                 const SimScreen& screen) {
  const sim::TableCells cells = sim::pack_table(reports, levels);
  Table table;
  for (const std::string& header : cells.front()) table.add_column(header, Align::kRight);
  for (std::size_t i = 1; i < cells.size(); ++i) {
    table.add_row(std::vector<Cell>(cells[i].begin(), cells[i].end()));
  }
  screen.out << table.render(screen.style) << "\n"
             << (reports.size() > 1 ? "Allocated, in percent of all GPUs.\n"
                                    : "In percent of all GPUs; OF FREE: fragmented, in percent of "
                                      "what is free.\n")
             << sim::pack_summary(reports);
}

int complain(const Error& error, const SimScreen& screen) {
  screen.err << "divvy: " << error.message << "\n";
  return error.code == ErrorCode::kIo || error.code == ErrorCode::kInternal ? kExitError
                                                                            : kExitUsage;
}

}  // namespace

Result<std::vector<std::string>> policy_list(const std::vector<std::string>& typed) {
  std::vector<std::string> policies;
  for (const std::string& text : typed) {
    if (text.find('=') != std::string::npos) {
      policies.push_back(text);
      continue;
    }
    for (const std::string_view name : split(text, ',')) policies.emplace_back(trim(name));
  }
  if (policies.empty()) policies.emplace_back("divvy");
  for (const std::string& policy : policies) {
    DIVVY_RETURN_IF_ERROR(place::make_policy(policy));
  }
  return policies;
}

Result<int> sim_pack(const SimPackOptions& options, const SimScreen& screen) {
  // What can be wrong with the command line is found before anything takes time.
  DIVVY_TRY(format, parse_output_format(options.format, kFormats));
  DIVVY_TRY(policies, policy_list(options.policies));
  DIVVY_TRY(levels, sim::LevelFilter::parse(options.levels));
  if (!options.plot.empty()) DIVVY_RETURN_IF_ERROR(sim::check_picture_name(options.plot));

  const auto input = read_input(options);
  if (!input) return complain(input.error(), screen);
  const auto reports = [&] {
    Progress progress(screen.err, screen.show_progress, screen.style);
    return replay(*input, policies, options.seed, progress);
  }();
  if (!reports) return complain(reports.error(), screen);
  if (!options.plot.empty()) {
    const Status written = sim::write_figure(sim::pack_figure(*reports), options.plot);
    if (!written) return complain(written.error(), screen);
  }
  if (format != OutputFormat::kTable) {
    const std::string document = sim::pack_document(*reports);
    screen.out << (format == OutputFormat::kYaml ? to_yaml(document) : document);
  } else {
    print_table(*reports, levels, screen);
  }
  screen.out << std::flush;
  if (!screen.out) {
    screen.err << "divvy: standard output could not be written\n";
    return kExitError;
  }
  return kExitOk;
}

}  // namespace divvy::cli
