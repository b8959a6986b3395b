#include "run/json_fields.h"

namespace divvy::run {

namespace json = boost::json;

Result<json::object> parse_object(std::string_view text, std::string_view of) {
  json::error_code code;
  json::parse_options options;
  options.max_depth = 16;
  // Arguments and variables are bytes; whoever wrote them chose which.
  options.allow_invalid_utf8 = true;
  json::value value = json::parse(text, code, {}, options);
  if (code.failed()) return err(ErrorCode::kDataLoss, "{}: {}", of, code.message());
  if (!value.is_object()) return err(ErrorCode::kDataLoss, "{}: not an object", of);
  return std::move(value.get_object());
}

const json::value* JsonFields::find(std::string_view name) {
  if (!status_) return nullptr;
  const json::value* found = object_.if_contains(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void JsonFields::refuse(std::string_view name, std::string_view why) {
  if (status_) status_ = err(ErrorCode::kDataLoss, "{} {}", name, why);
}

void JsonFields::take(std::string_view name, std::string& value) {
  const json::value* found = find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return refuse(name, "is not a text");
  value = std::string(std::string_view(found->get_string()));
}

void JsonFields::take(std::string_view name, bool& value) {
  const json::value* found = find(name);
  if (found == nullptr) return;
  if (!found->is_bool()) return refuse(name, "is neither true nor false");
  value = found->get_bool();
}

void JsonFields::take(std::string_view name, std::vector<std::string>& value) {
  const json::value* found = find(name);
  if (found == nullptr) return;
  if (!found->is_array()) return refuse(name, "is not a list");
  value.clear();
  for (const json::value& item : found->get_array()) {
    if (!item.is_string()) return refuse(name, "is not a list of texts");
    value.emplace_back(std::string_view(item.get_string()));
  }
}

void JsonFields::take(std::string_view name, std::map<std::string, std::string>& value) {
  const json::object* found = object(name);
  if (found == nullptr) return;
  value.clear();
  for (const auto& [key, item] : *found) {
    if (!item.is_string()) return refuse(name, "does not hold texts only");
    value[std::string(std::string_view(key))] = std::string(std::string_view(item.get_string()));
  }
}

const json::object* JsonFields::object(std::string_view name) {
  const json::value* found = find(name);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) refuse(name, "is not an object");
  return found->if_object();
}

std::vector<const json::object*> JsonFields::objects(std::string_view name) {
  std::vector<const json::object*> result;
  const json::value* found = find(name);
  if (found == nullptr) return result;
  const json::array* items = found->if_array();
  if (items == nullptr) refuse(name, "is not a list");
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const json::object* item = (*items)[i].if_object();
    if (item == nullptr) {
      refuse(name, "is not a list of objects");
      return {};
    }
    result.push_back(item);
  }
  return result;
}

}  // namespace divvy::run
