#include "cli/gpu_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <ostream>

#include "base/text.h"
#include "cli/answer.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/list_view.h"
#include "cli/output.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                     OutputFormat::kYaml, OutputFormat::kName};
constexpr const char* kPath = "/v1/gpus";

// Escaped by the daemon already.
std::string text(const json::object& from, std::string_view name) {
  const json::value& value = from.at(name);
  return value.is_null() ? std::string() : std::string(value.as_string());
}

Color color_of(std::string_view state) {
  if (state == "healthy") return Color::kGreen;
  if (state == "quarantined") return Color::kRed;
  return Color::kYellow;
}

std::string cordon_word(const json::object& gpu) {
  if (gpu.at("draining").as_bool()) return "draining";
  return gpu.at("cordoned").as_bool() ? "cordoned" : "";
}

std::string tenant_names(const json::object& gpu) {
  std::string names;
  for (const json::value& tenant : gpu.at("tenants").as_array()) {
    if (!names.empty()) names += ", ";
    names += escape_for_terminal(std::string_view(tenant.at("name").as_string()));
  }
  return names;
}

// By index, or by the beginning of the UUID in either case.
bool is_meant(const std::string& wanted, const std::string& index, const std::string& uuid) {
  constexpr std::string_view kPrefix = "GPU-";
  return wanted == index ||
         (wanted.size() > kPrefix.size() && to_lower(uuid).starts_with(to_lower(wanted)));
}

// What an operator wants to know after a change: of the GPU that was meant.
std::string outcome_text(const std::string& document, const std::string& wanted) {
  boost::system::error_code code;
  const json::value value = json::parse(document, code);
  if (code || !value.is_object()) return {};
  for (const json::value& item : value.as_object().at("items").as_array()) {
    const json::object& gpu = item.as_object();
    const std::string index = std::to_string(gpu.at("index").to_number<std::uint32_t>());
    if (!is_meant(wanted, index, text(gpu, "uuid"))) continue;
    const std::string word = cordon_word(gpu);
    const std::string names = tenant_names(gpu);
    std::string line = fmt::format("GPU {} is {}{}", index, text(gpu, "state"),
                                   word.empty() ? "" : " and " + word);
    if (!word.empty()) line += names.empty() ? "; nobody is on it" : "; still on it: " + names;
    return line + "\n";
  }
  return {};
}

model::HealthState state_named(std::string_view word) {
  for (const auto state : {model::HealthState::kHealthy, model::HealthState::kSuspect,
                           model::HealthState::kQuarantined, model::HealthState::kProbation}) {
    if (to_string(state) == word) return state;
  }
  return model::HealthState::kUnknown;
}

// As "cordoned: new fan" where there is nothing worse to tell.
model::Health health_of(const json::object& gpu) {
  model::Health health{state_named(text(gpu, "state")), text(gpu, "reason")};
  const std::string word = cordon_word(gpu);
  if (!health.reason.empty() || word.empty()) return health;
  const std::string why = text(gpu, "cordonReason");
  health.reason = word + (why.empty() ? "" : ": " + why);
  return health;
}

int fail(const Reply& reply, std::ostream& err) {
  err << "divvy: " << problem_text(reply) << "\n";
  return problem_exit(reply);
}

}  // namespace

CLI::App* add_gpu(CLI::App& app, GpuArguments& arguments) {
  CLI::App* gpu = app.add_subcommand("gpu", "Health of the GPUs; take one out of use");
  gpu->group("Commands");
  gpu->footer(kGpuFooter);
  CLI::App* list = gpu->add_subcommand("list", "How the GPUs are doing, as divvyd judges it");
  add_output(*list, arguments.format, kFormats);
  const auto add_action = [&](const char* name, const char* what) {
    CLI::App* action = gpu->add_subcommand(name, what);
    action->add_option("GPU", arguments.gpu, "Index, UUID or the beginning of one")->required();
    return action;
  };
  CLI::App* cordon = add_action("cordon", "Give it no new work");
  CLI::App* drain = add_action("drain", "Give it no new work, and ask its tenants to end");
  add_action("uncordon", "Give it work again");
  for (CLI::App* action : {cordon, drain}) {
    action->add_option("--reason", arguments.reason, "Shown to whoever is refused")
        ->type_name("TEXT");
  }
  drain
      ->add_option("--deadline", arguments.deadline_seconds,
                   "After so many seconds, end whoever is still there")
      ->type_name("SECONDS");
  return gpu;
}

int show_gpu_health(const Daemon& daemon, OutputFormat format, const Style& style,
                    std::ostream& out, std::ostream& err) {
  const auto reply = daemon.ask("GET", kPath);
  if (!reply) {
    err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  if (!reply->ok()) return fail(*reply, err);
  const bool document = format == OutputFormat::kJson || format == OutputFormat::kYaml;
  const auto shown = document ? Result<std::string>(write_document(reply->body, format))
                     : format == OutputFormat::kName ? item_names(reply->body, "uuid")
                                                     : health_table(reply->body, style);
  if (!shown) {
    err << "divvy: " << shown.error().message << "\n";
    return kExitError;
  }
  out << *shown << std::flush;
  return kExitOk;
}

Result<int> run_gpu(const CLI::App& gpu, const GpuArguments& arguments, const Daemon& daemon,
                    const Style& style, std::ostream& out, std::ostream& err) {
  const std::string action = gpu.get_subcommands().front()->get_name();
  if (action == "list") {
    DIVVY_TRY(format, parse_output_format(arguments.format, kFormats));
    return show_gpu_health(daemon, format, style, out, err);
  }
  json::object body;
  if (!arguments.reason.empty()) body["reason"] = arguments.reason;
  if (arguments.deadline_seconds) body["deadlineSeconds"] = *arguments.deadline_seconds;
  const auto reply = daemon.ask("POST", fmt::format("{}/{}/{}", kPath, arguments.gpu, action),
                                json::serialize(body));
  if (!reply) {
    err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  if (!reply->ok()) return fail(*reply, err);
  out << outcome_text(reply->body, arguments.gpu) << std::flush;
  return kExitOk;
}

Result<std::string> health_table(const std::string& document, const Style& style) {
  try {
    const json::value value = json::parse(document);
    const json::array& items = value.as_object().at("items").as_array();
    const auto has_node = [](const json::value& item) { return item.as_object().contains("node"); };
    const bool nodes = std::ranges::any_of(items, has_node);
    if (items.empty()) return "there is no GPU that can be shared\n";
    Table table;
    if (nodes) table.add_column("NODE");
    table.add_column("GPU", Align::kRight);
    table.add_column("MODEL");
    if (nodes) table.add_column("HELD", Align::kRight);
    table.add_column("STATE");
    table.add_column("CORDON");
    table.add_column("TENANTS");
    table.add_column("REASON");
    for (const json::value& item : items) {
      const json::object& gpu = item.as_object();
      const std::string state = text(gpu, "state");
      const std::string names = tenant_names(gpu);
      const std::string reason = health_of(gpu).reason;
      std::vector<Cell> row;
      if (nodes) row.emplace_back(has_node(item) ? text(gpu, "node") : "");
      row.emplace_back(std::to_string(gpu.at("index").to_number<std::uint32_t>()));
      row.emplace_back(text(gpu, "model"));
      if (nodes) {
        row.emplace_back(
            to_string(Share(gpu.at("heldShareThousandths").to_number<std::uint32_t>())));
      }
      row.emplace_back(state, color_of(state));
      row.emplace_back(cordon_word(gpu), Color::kYellow);
      row.emplace_back(names.empty() ? std::string(style.unknown()) : names);
      row.emplace_back(reason);
      table.add_row(std::move(row));
    }
    return table.render(style);
  } catch (const std::exception& error) {
    return err(not_understood(error.what()));
  }
}

model::Node with_health(const model::Node& node, const std::string& document) {
  model::Node::Parts parts{node.hostname(), node.driver_version(), node.cuda_version(),
                           node.gpus(),     node.topology(),       node.simulated()};
  try {
    const json::value value = json::parse(document);
    for (const json::value& item : value.as_object().at("items").as_array()) {
      const json::object& judged = item.as_object();
      const std::string uuid = text(judged, "uuid");
      for (model::Gpu& gpu : parts.gpus) {
        if (gpu.uuid && gpu.uuid->str() == uuid) gpu.health = health_of(judged);
      }
    }
  } catch (const std::exception&) {
    return node;  // A daemon of another version; what the driver says is still true.
  }
  return model::Node::create(std::move(parts)).value_or(node);
}

Inventory judged_by(const Daemon& daemon, const Inventory& inventory) {
  return [daemon, inventory]() -> Result<model::Node> {
    DIVVY_TRY(node, inventory());
    const auto reply = daemon.ask("GET", kPath, {}, std::chrono::seconds(2));
    if (!reply || !reply->ok()) return node;
    return with_health(node, reply->body);
  };
}

}  // namespace divvy::cli
