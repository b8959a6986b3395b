#include "kube/node_affinity.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "kube/json_view.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// `value` is what the node has under the key; nothing: no such key.
bool holds(const json::object& condition, std::optional<std::string_view> value) {
  const std::string_view verb = text_at(condition, {"operator"});
  const json::array& values = array_at(condition, {"values"});
  const bool listed = value && std::ranges::any_of(values, [&](const json::value& one) {
                        return one.is_string() && std::string_view(one.get_string()) == *value;
                      });
  if (verb == "In") return listed;
  if (verb == "NotIn") return !listed;
  if (verb == "Exists") return value.has_value();
  if (verb == "DoesNotExist") return !value.has_value();
  if ((verb != "Gt" && verb != "Lt") || !value || values.size() != 1 || !values[0].is_string()) {
    return false;
  }
  const auto has = whole(*value);
  const auto limit = whole(std::string_view(values[0].get_string()));
  return has && limit && (verb == "Gt" ? *has > *limit : *has < *limit);
}

bool admits_term(const json::object& term, const NodeFacts& node) {
  const json::array& labels = array_at(term, {"matchExpressions"});
  const json::array& fields = array_at(term, {"matchFields"});
  if (labels.empty() && fields.empty()) return false;
  const bool by_labels = std::ranges::all_of(labels, [&node](const json::value& one) {
    if (!one.is_object()) return false;
    const auto found = node.labels.find(std::string(text_at(one.get_object(), {"key"})));
    return holds(one.get_object(), found == node.labels.end()
                                       ? std::nullopt
                                       : std::optional<std::string_view>(found->second));
  });
  // Nodes have one field that can be asked for.
  return by_labels && std::ranges::all_of(fields, [&node](const json::value& one) {
           return one.is_object() && text_at(one.get_object(), {"key"}) == "metadata.name" &&
                  holds(one.get_object(), node.object.name);
         });
}

}  // namespace

bool admits(const json::object& affinity, const NodeFacts& node) {
  const json::array& terms = array_at(
      affinity,
      {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  return terms.empty() || std::ranges::any_of(terms, [&node](const json::value& one) {
           return one.is_object() && admits_term(one.get_object(), node);
         });
}

}  // namespace divvy::kube
