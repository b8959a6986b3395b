#include "kube/json_patch.h"

#include <boost/json.hpp>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using Steps = std::vector<std::string>;

Result<Steps> parse_pointer(std::string_view text) {
  Steps steps;
  if (text.empty()) return steps;
  if (text.front() != '/') return err(ErrorCode::kInvalidArgument, "'{}' is no JSON pointer", text);
  for (const std::string_view part : split(text.substr(1), '/')) {
    std::string step;
    for (std::size_t at = 0; at < part.size(); ++at) {
      if (part[at] != '~') {
        step += part[at];
        continue;
      }
      const char code = at + 1 < part.size() ? part[++at] : ' ';
      if (code != '0' && code != '1') {
        return err(ErrorCode::kInvalidArgument, "'{}' is no JSON pointer", text);
      }
      step += code == '0' ? '~' : '/';
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// Digits without zeros in front, as the RFC has it.
std::optional<std::size_t> to_index(const std::string& step) {
  std::size_t index = 0;
  const auto [end, code] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (code != std::errc() || end != step.data() + step.size()) return std::nullopt;
  if (step.size() > 1 && step.front() == '0') return std::nullopt;
  return index;
}

json::value* child(json::value& parent, const std::string& step) {
  if (json::object* object = parent.if_object()) return object->if_contains(step);
  if (json::array* array = parent.if_array()) {
    const auto index = to_index(step);
    if (index && *index < array->size()) return &(*array)[*index];
  }
  return nullptr;
}

json::value* find(json::value& document, const Steps& steps, std::size_t count) {
  json::value* at = &document;
  for (std::size_t i = 0; i < count && at != nullptr; ++i) at = child(*at, steps[i]);
  return at;
}

tl::unexpected<Error> missing(std::string_view path) {
  return err(ErrorCode::kInvalidArgument, "there is nothing at '{}'", path);
}

Status add(json::value& document, const Steps& steps, std::string_view path, json::value value) {
  if (steps.empty()) {
    document = std::move(value);
    return {};
  }
  json::value* parent = find(document, steps, steps.size() - 1);
  if (parent == nullptr) return missing(path);
  const std::string& last = steps.back();
  if (json::object* object = parent->if_object()) {
    (*object)[last] = std::move(value);
    return {};
  }
  json::array* array = parent->if_array();
  if (array == nullptr) return missing(path);
  const auto index = last == "-" ? array->size() : to_index(last);
  if (!index || *index > array->size()) return missing(path);
  array->insert(array->begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
  return {};
}

Result<json::value> take_out(json::value& document, const Steps& steps, std::string_view path) {
  json::value* found = find(document, steps, steps.size());
  if (found == nullptr) return missing(path);
  json::value taken = *found;
  if (steps.empty()) {
    document = nullptr;
    return taken;
  }
  json::value* parent = find(document, steps, steps.size() - 1);
  if (json::object* object = parent->if_object()) {
    object->erase(steps.back());
  } else {
    json::array& array = parent->as_array();
    array.erase(array.begin() + static_cast<std::ptrdiff_t>(*to_index(steps.back())));
  }
  return taken;
}

Result<std::string> text_of(const json::object& operation, std::string_view name) {
  const json::value* value = operation.if_contains(name);
  if (value == nullptr || !value->is_string()) {
    return err(ErrorCode::kInvalidArgument, "it has no '{}'", name);
  }
  return std::string(value->as_string());
}

Status apply_one(json::value& document, const json::object& operation) {
  DIVVY_TRY(what, text_of(operation, "op"));
  DIVVY_TRY(path, text_of(operation, "path"));
  DIVVY_TRY(steps, parse_pointer(path));
  if (what == "remove") {
    DIVVY_RETURN_IF_ERROR(take_out(document, steps, path));
    return {};
  }
  if (what == "move" || what == "copy") {
    DIVVY_TRY(from, text_of(operation, "from"));
    DIVVY_TRY(source, parse_pointer(from));
    if (what == "move") {
      if (source.size() < steps.size() && std::equal(source.begin(), source.end(), steps.begin())) {
        return err(ErrorCode::kInvalidArgument, "'{}' cannot be moved into itself", from);
      }
      DIVVY_TRY(taken, take_out(document, source, from));
      return add(document, steps, path, std::move(taken));
    }
    const json::value* found = find(document, source, source.size());
    if (found == nullptr) return missing(from);
    return add(document, steps, path, json::value(*found));
  }
  const json::value* value = operation.if_contains("value");
  if (value == nullptr) return err(ErrorCode::kInvalidArgument, "it has no 'value'");
  if (what == "add") return add(document, steps, path, *value);
  json::value* found = find(document, steps, steps.size());
  if (what == "test") {
    if (found != nullptr && *found == *value) return {};
    return err(ErrorCode::kInvalidArgument, "the test of '{}' failed", path);
  }
  if (what != "replace") return err(ErrorCode::kInvalidArgument, "'{}' is no operation", what);
  if (found == nullptr) return missing(path);
  *found = *value;
  return {};
}

}  // namespace

Result<json::value> apply_json_patch(json::value document, const json::value& patch) {
  if (!patch.is_array()) return err(ErrorCode::kInvalidArgument, "a JSON patch is a list");
  std::size_t number = 0;
  for (const json::value& operation : patch.as_array()) {
    ++number;
    const Status applied = operation.is_object()
                               ? apply_one(document, operation.as_object())
                               : err(ErrorCode::kInvalidArgument, "it is no object");
    if (!applied) return err(with_context(applied.error(), fmt::format("operation {}", number)));
  }
  return document;
}

json::value apply_merge_patch(json::value document, const json::value& patch) {
  if (!patch.is_object()) return patch;
  if (!document.is_object()) document = json::object();
  json::object& object = document.as_object();
  for (const auto& [name, value] : patch.as_object()) {
    if (value.is_null()) {
      object.erase(name);
      continue;
    }
    json::value& member = object[name];
    member = apply_merge_patch(std::move(member), value);
  }
  return document;
}

std::string json_pointer(const std::vector<std::string_view>& steps) {
  std::string pointer;
  for (const std::string_view step : steps) {
    pointer += '/';
    for (const char c : step) {
      if (c == '~') {
        pointer += "~0";
      } else if (c == '/') {
        pointer += "~1";
      } else {
        pointer += c;
      }
    }
  }
  return pointer;
}

}  // namespace divvy::kube
