#include "cli/bench_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <ostream>

#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/sim_command.h"
#include "cli/table.h"
#include "sim/place_bench.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                     OutputFormat::kYaml};

std::string table_of(const std::vector<sim::PlaceBenchRow>& rows, const Style& style) {
  Table table;
  table.add_column("GPUS", Align::kRight);
  table.add_column("NODES", Align::kRight);
  table.add_column("WHAT");
  for (const char* name : {"DECISIONS", "PER SECOND", "P50 US", "P99 US", "P99.9 US", "HELD %"}) {
    table.add_column(name, Align::kRight);
  }
  table.add_column("MEMORY", Align::kRight);
  for (const sim::PlaceBenchRow& row : rows) {
    table.add_row({std::to_string(row.gpus), std::to_string(row.nodes), row.what,
                   std::to_string(row.decisions), fmt::format("{:.0f}", row.per_second()),
                   fmt::format("{:.2f}", row.p50_us), fmt::format("{:.2f}", row.p99_us),
                   fmt::format("{:.2f}", row.p999_us), fmt::format("{:.2f}", row.held_percent),
                   humanize(Bytes(row.bytes))});
  }
  return table.render(style);
}

std::string json_of(const std::string& policy, const std::vector<sim::PlaceBenchRow>& rows) {
  boost::json::array list;
  for (const sim::PlaceBenchRow& row : rows) {
    list.push_back({{"gpus", row.gpus},
                    {"nodes", row.nodes},
                    {"what", row.what},
                    {"decisions", row.decisions},
                    {"decisions_per_second", row.per_second()},
                    {"cpu_seconds", row.cpu_seconds},
                    {"p50_us", row.p50_us},
                    {"p99_us", row.p99_us},
                    {"p99_9_us", row.p999_us},
                    {"held_percent", row.held_percent},
                    {"memory_bytes", row.bytes}});
  }
  return boost::json::serialize(boost::json::object{{"policy", policy}, {"rows", list}}) + "\n";
}

Result<sim::PlaceBenchOptions> options_of(const BenchArguments& arguments) {
  sim::PlaceBenchOptions options;
  options.policy = arguments.policy;
  options.steady_decisions = arguments.steady;
  if (!arguments.gpus.empty()) options.gpus = arguments.gpus;
  if (!arguments.nodes.empty()) {
    DIVVY_TRY(table, sim::CsvTable::read(arguments.nodes));
    DIVVY_TRY(nodes, sim::read_nodes(table));
    options.nodes = std::move(nodes);
  }
  if (!arguments.pods.empty()) {
    DIVVY_TRY(table, sim::CsvTable::read(arguments.pods));
    DIVVY_TRY(pods, sim::read_pods(table));
    options.pods = std::move(pods);
  }
  return options;
}

}  // namespace

CLI::App* add_bench(CLI::App& app, BenchArguments& arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Measure Divvy itself on this machine");
  bench->group("Commands");
  bench->footer(kBenchFooter);
  CLI::App* place = bench->add_subcommand("place", "How fast are placements decided?");
  place->group("Commands");
  place->footer(kBenchPlaceFooter);
  place->add_option("--gpus", arguments.gpus, "Sizes of the cluster (default 1000,10000,100000)")
      ->delimiter(',')
      ->type_name("NUMBER");
  place->add_option("--policy", arguments.policy, "Who decides (default divvy)")
      ->type_name("POLICY");
  place->add_option("--nodes", arguments.nodes, "Nodes of a trace, repeated up to the size")
      ->type_name("CSV");
  place->add_option("--pods", arguments.pods, "Requests of a trace")->type_name("CSV");
  place->add_option("--steady", arguments.steady, "Decisions while members come and go")
      ->type_name("NUMBER");
  place->add_option("-o,--output", arguments.format, "Output format: table, json or yaml")
      ->type_name("FORMAT");
  return bench;
}

Result<int> run_bench(const CLI::App& bench, const BenchArguments& arguments,
                      const SimScreen& screen) {
  if (!bench.got_subcommand("place")) {
    return err(ErrorCode::kInvalidArgument, "no command was given: divvy bench place");
  }
  DIVVY_TRY(format, parse_output_format(arguments.format, kFormats));
  auto options = options_of(arguments);
  if (!options) {
    screen.err << "divvy: " << options.error().message << "\n";
    return kExitUsage;
  }
  Progress progress(screen.err, screen.show_progress, screen.style);
  const std::size_t steps = 9 * options->gpus.size() + 1;
  std::size_t done = 0;
  progress.show(0, steps, "placing");
  DIVVY_TRY(rows, sim::bench_place(*options, [&](const sim::PlaceBenchRow& row) {
              progress.show(++done, steps, fmt::format("{} GPUs: {}", row.gpus, row.what));
            }));
  if (format == OutputFormat::kTable) {
    screen.out << table_of(rows, screen.style);
  } else {
    const std::string document = json_of(arguments.policy, rows);
    screen.out << (format == OutputFormat::kYaml ? to_yaml(document) : document);
  }
  return kExitOk;
}

}  // namespace divvy::cli
