#include "cli/slice_command.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <ostream>

#include "base/text.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/list_view.h"
#include "cli/output.h"
#include "cli/run_command.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                     OutputFormat::kYaml, OutputFormat::kName};

void add_create(CLI::App& slice, SliceArguments& arguments) {
  CLI::App* create = slice.add_subcommand("create", "Hold a slice for containers");
  create->footer(kSliceCreateFooter);
  create->add_option("NAME", arguments.name, "The name by which containers ask for it")->required();
  create
      ->add_option("--gpu", arguments.gpu,
                   "How much of a GPU, or how many: 0.3, 300m, 1, 2.5 (default 1)")
      ->type_name("SHARE");
  create
      ->add_option("--gpu-mem", arguments.memory,
                   "Memory on each GPU: 10GiB; without --gpu also says how much of the GPU")
      ->type_name("SIZE");
  create->add_flag("--cap", arguments.cap, "Never take more than the share, even of an idle GPU");
  create->add_option("--class", arguments.tenant_class, "latency goes before batch (default batch)")
      ->type_name("CLASS");
  create
      ->add_option("--mode", arguments.mode,
                   "timeslice: take turns on the GPU; mps: run side by side (default: sharing.mode "
                   "of divvyd)")
      ->type_name("MODE");
  create
      ->add_option("--device", arguments.devices,
                   "Only this GPU: index, UUID or the beginning of one; may be repeated")
      ->type_name("GPU")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  create->add_option("--queue", arguments.queue, "Count in this queue (default: default)")
      ->type_name("QUEUE");
  create->add_option("--model", arguments.models, "Only GPUs of this model; may be repeated")
      ->type_name("MODEL")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// What a reply that is no success means for the user.
int complain(const Reply& reply, std::ostream& err) {
  err << "divvy: " << problem_text(reply) << "\n" << holders_text(reply.body);
  return is_no_fit(reply) ? kExitNoFit : problem_exit(reply);
}

int create(const SliceArguments& arguments, const Daemon& daemon, const SliceScreen& screen) {
  json::object body{
      {"name", arguments.name}, {"cap", arguments.cap}, {"class", arguments.tenant_class}};
  if (arguments.gpu || !arguments.memory) body["gpu"] = arguments.gpu.value_or("1");
  if (arguments.memory) body["memory"] = *arguments.memory;
  if (!arguments.mode.empty()) body["mode"] = arguments.mode;
  if (!arguments.devices.empty()) body["devices"] = json::value_from(arguments.devices);
  if (!arguments.models.empty()) body["models"] = json::value_from(arguments.models);
  if (!arguments.queue.empty()) body["queue"] = arguments.queue;
  const auto reply = daemon.ask("POST", "/v1/slices", json::serialize(body));
  if (!reply) {
    screen.err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  if (!reply->ok()) return complain(*reply, screen.err);
  screen.out << "divvy.dev/slice=" << arguments.name << "\n" << std::flush;
  return screen.out ? kExitOk : kExitError;
}

int list(OutputFormat format, const Daemon& daemon, const SliceScreen& screen) {
  const auto reply = daemon.ask("GET", "/v1/slices");
  if (!reply) {
    screen.err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  if (!reply->ok()) return complain(*reply, screen.err);
  Result<std::string> shown;
  if (format == OutputFormat::kTable || format == OutputFormat::kWide) {
    shown = slice_table(reply->body, screen.style);
  } else if (format == OutputFormat::kName) {
    shown = item_names(reply->body, "name");
  } else {
    shown = write_document(reply->body, format);
  }
  if (!shown) {
    screen.err << "divvy: " << shown.error().message << "\n";
    return kExitError;
  }
  screen.out << *shown << std::flush;
  return screen.out ? kExitOk : kExitError;
}

int remove(const std::string& name, const Daemon& daemon, const SliceScreen& screen) {
  const auto reply = daemon.ask("DELETE", "/v1/slices/" + name);
  if (!reply) {
    screen.err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  return reply->ok() ? kExitOk : complain(*reply, screen.err);
}

std::string text(const json::object& from, std::string_view name) {
  return escape_for_terminal(std::string_view(from.at(name).as_string()));
}

void add_rows(Table& table, const json::object& slice) {
  bool first = true;
  for (const json::value& item : slice.at("slices").as_array()) {
    const json::object& part = item.as_object();
    const auto number = [&part](std::string_view name) {
      return part.at(name).to_number<std::uint64_t>();
    };
    std::string share = to_string(Share(static_cast<std::uint32_t>(number("shareThousandths"))));
    if (part.at("capped").as_bool()) share += " cap";
    std::vector<Cell> row;
    row.emplace_back(first ? text(slice, "name") : "");
    row.emplace_back(first ? text(slice, "user") : "");
    row.emplace_back(
        fmt::format("{}", part.at("gpu").as_object().at("index").to_number<std::uint64_t>()));
    row.emplace_back(share);
    row.emplace_back(humanize(Bytes(number("memoryUsedBytes"))));
    row.emplace_back(humanize(Bytes(number("memoryLimitBytes"))));
    row.emplace_back(first ? fmt::format("{}", slice.at("processes").as_array().size()) : "");
    row.emplace_back(first ? text(slice, "device") : "");
    table.add_row(std::move(row));
    first = false;
  }
}

}  // namespace

Result<std::string> slice_table(const std::string& document, const Style& style) {
  try {
    const json::value value = json::parse(document);
    const json::array& items = value.as_object().at("items").as_array();
    if (items.empty()) return "no slice is held for containers\n";
    Table table;
    table.add_column("SLICE");
    table.add_column("USER");
    table.add_column("GPU", Align::kRight);
    table.add_column("SHARE");
    table.add_column("MEMORY", Align::kRight);
    table.add_column("LIMIT", Align::kRight);
    table.add_column("PROCS", Align::kRight);
    table.add_column("DEVICE");
    for (const json::value& item : items) add_rows(table, item.as_object());
    return table.render(style);
  } catch (const std::exception& error) {
    return err(not_understood(error.what()));
  }
}

CLI::App* add_slice(CLI::App& app, SliceArguments& arguments) {
  CLI::App* slice = app.add_subcommand("slice", "Hold slices of GPUs for containers");
  slice->group("Commands");
  slice->footer(kSliceFooter);
  add_create(*slice, arguments);
  CLI::App* list = slice->add_subcommand("list", "List the slices that are held for containers");
  add_output(*list, arguments.format, kFormats);
  CLI::App* remove = slice->add_subcommand("delete", "Give a slice back");
  remove->add_option("SLICE", arguments.name, "Its name, as `divvy slice list` shows it")
      ->required();
  for (CLI::App* command : slice->get_subcommands(nullptr)) command->group("Commands");
  return slice;
}

Result<int> run_slice(const CLI::App& slice, const SliceArguments& arguments, const Daemon& daemon,
                      const SliceScreen& screen) {
  if (slice.got_subcommand("create")) return create(arguments, daemon, screen);
  if (slice.got_subcommand("delete")) return remove(arguments.name, daemon, screen);
  DIVVY_TRY(format, parse_output_format(arguments.format, kFormats));
  return list(format, daemon, screen);
}

}  // namespace divvy::cli
