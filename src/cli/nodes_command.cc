// `divvy nodes`: the machines behind whoever is asked, one on a machine and all of a cluster.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <map>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/list_view.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

struct NodeSum {
  std::int64_t gpus = 0;
  std::int64_t unusable = 0;
  std::int64_t free = 0;  // thousandths, of GPUs that can be used
  std::int64_t memory = 0;
  std::string models = {};
  std::string why = {};
};

// "NVIDIA H200 on node-1", where the answer is of a cluster.
std::string model_of(const Answer& gpu) {
  std::string model = gpu["model"].raw();
  const std::string node = " on " + gpu["node"].raw();
  if (model.ends_with(node)) model.resize(model.size() - node.size());
  return model;
}

std::string nodes_document(const Answer& stats) {
  std::map<std::string, NodeSum> nodes;
  for (const Answer& gpu : stats["gpus"].items()) {
    NodeSum& node = nodes[gpu["node"].raw()];
    ++node.gpus;
    node.memory += gpu["memoryBytes"].number().value_or(0);
    const std::string model = model_of(gpu);
    if (node.models.find(model) == std::string::npos) {
      node.models += (node.models.empty() ? "" : ", ") + model;
    }
    const std::string why = gpu["unusable"].raw();
    if (why.empty()) {
      node.free += gpu["freeShareThousandths"].number().value_or(0);
    } else {
      ++node.unusable;
      if (node.why.empty()) node.why = why;
    }
  }
  json::array items;
  for (const auto& [name, node] : nodes) {
    items.push_back(json::object{{"name", name},
                                 {"gpus", node.gpus},
                                 {"unusableGpus", node.unusable},
                                 {"freeShareThousandths", node.free},
                                 {"memoryBytes", node.memory},
                                 {"models", node.models},
                                 {"reason", node.why}});
  }
  return json::serialize(
      json::object{{"apiVersion", "divvy/v1"}, {"kind", "NodeList"}, {"items", std::move(items)}});
}

ListView nodes_view() {
  ListView view;
  view.name = "name";
  view.nothing = "there is no node with GPUs";
  view.columns = {
      text_column("NODE", "name"),
      number_column("GPUS", "gpus"),
      {.header = "FREE",
       .cell =
           [](const Answer& node) {
             const auto free = node["freeShareThousandths"].number().value_or(0);
             return Cell(to_string(Share(static_cast<std::uint32_t>(free))));
           },
       .align = Align::kRight,
       .number = [](const Answer& node) { return node["freeShareThousandths"].number(); }},
      number_column("UNUSABLE", "unusableGpus"),
      text_column("MODEL", "models"),
      {.header = "MEMORY",
       .cell =
           [](const Answer& node) {
             const auto bytes = node["memoryBytes"].number().value_or(0);
             return Cell(humanize(Bytes(static_cast<std::uint64_t>(bytes))));
           },
       .align = Align::kRight,
       .wide = true,
       .number = [](const Answer& node) { return node["memoryBytes"].number(); }},
      text_column("REASON", "reason")};
  return view;
}

}  // namespace

void add_nodes_command(CommandTree& tree) {
  auto format = std::make_shared<std::string>("table");
  auto sort_by = std::make_shared<std::string>();
  CLI::App* nodes =
      tree.add(heading::kGpus, "nodes", "The machines with GPUs, and what is free on each",
               kNodesFooter, [format, sort_by](const Session& session) -> Result<int> {
                 DIVVY_TRY(chosen, parse_output_format(*format, kListFormats));
                 std::vector<Answer> none;
                 DIVVY_RETURN_IF_ERROR(sort_items(nodes_view(), *sort_by, none));
                 const Asked stats = ask(session, "GET", "/v1/stats");
                 if (!stats) return stats.status();
                 DIVVY_TRY(text, show_list(nodes_view(), nodes_document(stats.answer()), chosen,
                                           *sort_by, session.style));
                 return session.print(text);
               });
  nodes->add_option("--sort-by", *sort_by, "A column; -free turns it round")->type_name("COLUMN");
  add_output(*nodes, *format, kListFormats);
}

}  // namespace divvy::cli
