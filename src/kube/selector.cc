#include "kube/selector.h"

#include <boost/json.hpp>
#include <optional>

#include "base/text.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

const json::value* label(const json::object& object, std::string_view key) {
  const json::value* at = object.if_contains("metadata");
  for (const std::string_view step : {std::string_view("labels"), key}) {
    const json::object* inside = at == nullptr ? nullptr : at->if_object();
    at = inside == nullptr ? nullptr : inside->if_contains(step);
  }
  return at;
}

}  // namespace

std::string_view text_at(const json::object& object, std::string_view path) {
  const json::object* inside = &object;
  for (;;) {
    const std::size_t dot = path.find('.');
    const json::value* value = inside->if_contains(path.substr(0, dot));
    if (value == nullptr) return {};
    if (dot == std::string_view::npos) {
      const json::string* text = value->if_string();
      return text == nullptr ? std::string_view() : std::string_view(*text);
    }
    inside = value->if_object();
    if (inside == nullptr) return {};
    path.remove_prefix(dot + 1);
  }
}

Result<Selector> Selector::of_labels(std::string_view text) { return parse(text, true); }
Result<Selector> Selector::of_fields(std::string_view text) { return parse(text, false); }

Result<Selector> Selector::parse(std::string_view text, bool labels) {
  Selector selector;
  selector.labels_ = labels;
  if (text.empty()) return selector;
  for (const std::string_view piece : split(text, ',')) {
    const std::string_view term = trim(piece);
    const std::size_t equals = term.find('=');
    Condition condition{{}, Test::kPresent, {}};
    if (equals != std::string_view::npos) {
      const bool unequal = equals > 0 && term[equals - 1] == '!';
      const bool twice = equals + 1 < term.size() && term[equals + 1] == '=';
      condition = {std::string(trim(term.substr(0, equals - (unequal ? 1 : 0)))),
                   unequal ? Test::kUnequal : Test::kEqual,
                   std::string(trim(term.substr(equals + (twice ? 2 : 1))))};
    } else if (labels && term.starts_with('!')) {
      condition = {std::string(trim(term.substr(1))), Test::kAbsent, {}};
    } else if (labels) {
      condition.key = std::string(term);
    }
    if (condition.key.empty() || condition.key.find_first_of(" ()!") != std::string::npos) {
      return err(ErrorCode::kInvalidArgument, "'{}' is no selector that Divvy knows", text);
    }
    selector.conditions_.push_back(std::move(condition));
  }
  return selector;
}

bool Selector::matches(const json::object& object) const {
  for (const Condition& condition : conditions_) {
    std::optional<std::string_view> value;
    if (labels_) {
      const json::value* found = label(object, condition.key);
      if (found != nullptr && found->is_string()) value = found->get_string();
    } else {
      value = text_at(object, condition.key);
    }
    bool holds = false;
    switch (condition.test) {
      case Test::kEqual:
        holds = value == std::string_view(condition.value);
        break;
      case Test::kUnequal:
        holds = value != std::string_view(condition.value);
        break;
      case Test::kPresent:
        holds = value.has_value();
        break;
      case Test::kAbsent:
        holds = !value.has_value();
        break;
    }
    if (!holds) return false;
  }
  return true;
}

}  // namespace divvy::kube
