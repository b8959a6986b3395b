// The answer of explain.h as text.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "place/explain.h"
#include "place/explain_words.h"

namespace divvy::place {
namespace {

constexpr std::size_t kShortNodes = 4;
constexpr std::size_t kShortRemedies = 4;

std::string subject(const Explanation& explanation) {
  return explanation.name.empty() ? "the request" : escape_for_terminal(explanation.name);
}

std::string counts(const Explanation& explanation) {
  std::vector<std::pair<std::uint32_t, Refusal>> sorted;
  sorted.reserve(explanation.by_reason.size());
  for (const auto& [refusal, count] : explanation.by_reason) sorted.emplace_back(count, refusal);
  std::ranges::sort(sorted, {}, [](const auto& entry) {
    return std::pair(-std::int64_t{entry.first}, entry.second);
  });
  std::vector<std::string> pieces;
  pieces.reserve(sorted.size());
  for (const auto& [count, refusal] : sorted) {
    pieces.push_back(fmt::format("{}: {}", to_string(refusal), count_words(count, "node")));
  }
  return fmt::format("{}", fmt::join(pieces, ", "));
}

std::string how_many(const Explanation& explanation) {
  if (explanation.members == 1) return {};
  std::string text = fmt::format("{} of {} members fit", explanation.fit_now, explanation.members);
  if (explanation.least != explanation.members) {
    text += fmt::format(", {} are needed", explanation.least);
  }
  return text;
}

// Those to which the least is missing first; those where nothing helps last.
std::vector<const NodeReason*> by_distance(const Explanation& explanation) {
  std::vector<const NodeReason*> nodes;
  nodes.reserve(explanation.nodes.size());
  for (const NodeReason& node : explanation.nodes) nodes.push_back(&node);
  std::ranges::sort(nodes, {}, [](const NodeReason* node) {
    return std::pair(node->missing.value_or(std::numeric_limits<std::uint64_t>::max()), node->node);
  });
  return nodes;
}

}  // namespace

std::string summary(const Explanation& explanation) {
  if (explanation.fits) {
    return explanation.members == 1
               ? fmt::format("{} fits", subject(explanation))
               : fmt::format("{} fits: {}", subject(explanation), how_many(explanation));
  }
  std::vector<std::string> pieces;
  if (explanation.members != 1) {
    pieces.push_back(how_many(explanation));
  } else {
    const auto nodes = by_distance(explanation);
    if (!nodes.empty()) {
      pieces.push_back(
          fmt::format("{}: {}", escape_for_terminal(nodes.front()->name), nodes.front()->text));
    }
  }
  if (!explanation.never.empty()) pieces.push_back("never: " + explanation.never);
  if (!explanation.remedies.empty()) {
    pieces.push_back("starts if " + explanation.remedies.front().text);
  }
  if (pieces.empty()) pieces.emplace_back("there are no nodes");
  return fmt::format("{}", fmt::join(pieces, "; "));
}

std::string to_text(const Explanation& explanation, Detail detail) {
  std::string text;
  const auto line = [&](std::string_view content) {
    text += content;
    text += '\n';
  };
  if (explanation.fits) {
    line(summary(explanation));
    return text;
  }
  line(fmt::format("{} ({}) does not fit on the {} as things are.", subject(explanation),
                   explanation.asked, count_words(explanation.nodes.size(), "node")));
  if (explanation.members != 1) line(fmt::format("  {}", how_many(explanation)));
  if (!explanation.never.empty()) line(fmt::format("  never: {}", explanation.never));
  if (!explanation.by_reason.empty()) line(fmt::format("  {}", counts(explanation)));
  const auto nodes = by_distance(explanation);
  const std::size_t shown =
      detail == Detail::kLong ? nodes.size() : std::min(nodes.size(), kShortNodes);
  for (std::size_t i = 0; i < shown; ++i) {
    const NodeReason& node = detail == Detail::kLong ? explanation.nodes[i] : *nodes[i];
    line(fmt::format("  {}: {}", escape_for_terminal(node.name), node.text));
    if (detail != Detail::kLong) continue;
    for (const std::string& device : node.devices) line(fmt::format("    {}", device));
  }
  if (shown < nodes.size()) {
    line(fmt::format("  and {}", count_words(nodes.size() - shown, "more node")));
  }
  const std::size_t remedies = detail == Detail::kLong
                                   ? explanation.remedies.size()
                                   : std::min(explanation.remedies.size(), kShortRemedies);
  for (std::size_t i = 0; i < remedies; ++i) {
    line(fmt::format("{} if {}", i == 0 ? "It starts" : "  or", explanation.remedies[i].text));
  }
  return text;
}

}  // namespace divvy::place
