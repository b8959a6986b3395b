#include "model/where.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 7> kNames{"any",  "zone", "rack",  "node",
                                                 "numa", "pcie", "nvlink"};
constexpr std::size_t kMostNames = 1000;
// Of a node: as long as a name in the DNS may be.
constexpr std::size_t kLongestName = 253;

tl::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "where.{}: {}", field, what);
}

bool is_name(std::string_view text) {
  return !trim(text).empty() && text.size() <= kLongestName &&
         std::ranges::all_of(
             text, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; });
}

std::string shown(std::string_view text) { return escape_for_terminal(text.substr(0, 60)); }

Status check_names(std::string_view field, const std::vector<std::string>& names,
                   std::string_view of) {
  if (names.size() > kMostNames) {
    return wrong(field, fmt::format("{} names are more than the {} that are allowed", names.size(),
                                    kMostNames));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (is_name(names[i])) continue;
    return wrong(fmt::format("{}[{}]", field, i),
                 fmt::format("\"{}\" is no name of a {}", shown(names[i]), of));
  }
  return {};
}

}  // namespace

std::string_view to_string(Closeness closeness) {
  return kNames[static_cast<std::size_t>(closeness)];
}

Result<Closeness> parse_closeness(std::string_view text) {
  const auto* const found = std::ranges::find(kNames, to_lower(trim(text)));
  if (found != kNames.end()) return static_cast<Closeness>(found - kNames.begin());
  return err(ErrorCode::kInvalidArgument,
             "\"{}\" is no nearness; write any, zone, rack, node, numa, pcie or nvlink",
             escape_for_terminal(text.substr(0, 40)));
}

Status check(const Where& where) {
  DIVVY_RETURN_IF_ERROR(check_names("nodes", where.nodes, "node"));
  DIVVY_RETURN_IF_ERROR(check_names("nodes_denied", where.nodes_denied, "node"));
  DIVVY_RETURN_IF_ERROR(check_names("tolerations", where.tolerations, "taint"));
  for (const std::string& node : where.nodes) {
    if (std::ranges::find(where.nodes_denied, node) == where.nodes_denied.end()) continue;
    return wrong("nodes_denied", fmt::format("{} is in nodes, too; take it off one list", node));
  }
  if (where.node_labels.size() > kMostNames) {
    return wrong("node_labels", fmt::format("{} labels are more than the {} that are allowed",
                                            where.node_labels.size(), kMostNames));
  }
  for (const auto& [key, value] : where.node_labels) {
    if (!is_name(key) || (!value.empty() && !is_name(value))) {
      return wrong("node_labels",
                   fmt::format("\"{}={}\" is no label of a node", shown(key), shown(value)));
    }
  }
  if (where.gpus_near.closeness != Closeness::kAnywhere &&
      !inside_a_node(where.gpus_near.closeness)) {
    return wrong("gpus_near",
                 "the GPUs of one member are on one node already; ask for numa, pcie or nvlink");
  }
  if (inside_a_node(where.members_near.closeness)) {
    return wrong("members_near",
                 fmt::format("members can be near each other by node, rack or zone, not by {}",
                             to_string(where.members_near.closeness)));
  }
  if (where.spread && (where.spread->most == 0 || where.spread->domain == Closeness::kAnywhere ||
                       inside_a_node(where.spread->domain))) {
    return wrong("spread", "it takes a node, rack or zone and at least 1 member in each");
  }
  return {};
}

}  // namespace divvy::model
