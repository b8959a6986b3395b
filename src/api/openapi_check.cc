// The check of real traffic against the document. It knows of JSON Schema what openapi.cc writes.
#include <algorithm>
#include <boost/json.hpp>
#include <limits>
#include <regex>

#include "api/openapi.h"
#include "api/request_target.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

class Checker {
 public:
  explicit Checker(const json::object& document) : document_(document) {}

  // Adds what is wrong with `value`, which stands at `place`.
  void check(const json::object& schema, const json::value& value, const std::string& place) {
    if (const json::value* target = schema.if_contains("$ref")) {
      check(resolve(std::string(target->as_string())), value, place);
    } else if (const json::value* any = schema.if_contains("anyOf")) {
      check_any(any->as_array(), value, place);
    } else {
      check_type(schema, value, place);
    }
  }

  void add(std::string problem) { problems_.push_back(std::move(problem)); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(problems_); }

 private:
  const json::object& resolve(const std::string& reference) const {
    const std::string name = reference.substr(reference.rfind('/') + 1);
    return document_.at("components").at("schemas").at(name).as_object();
  }

  void check_any(const json::array& schemas, const json::value& value, const std::string& place) {
    std::vector<std::string> closest;
    for (const json::value& schema : schemas) {
      Checker alone(document_);
      alone.check(schema.as_object(), value, place);
      if (alone.problems_.empty()) return;
      // The one that is of the right kind says more than the others.
      if (closest.empty() || !alone.kind_differs_) closest = std::move(alone.problems_);
    }
    problems_.insert(problems_.end(), closest.begin(), closest.end());
  }

  void check_type(const json::object& schema, const json::value& value, const std::string& place) {
    const std::string type(schema.at("type").as_string());
    const bool right = type == "string"    ? value.is_string()
                       : type == "integer" ? value.is_int64() || value.is_uint64()
                       : type == "number"  ? value.is_number()
                       : type == "boolean" ? value.is_bool()
                       : type == "null"    ? value.is_null()
                       : type == "array"   ? value.is_array()
                                           : value.is_object();
    if (!right) {
      kind_differs_ = true;
      add(place + ": is no " + type + ": " + json::serialize(value).substr(0, 60));
    } else if (const json::value* words = schema.if_contains("enum")) {
      if (std::ranges::find(words->as_array(), value) == words->as_array().end()) {
        add(place + ": is none of the words for it: " + json::serialize(value).substr(0, 60));
      }
    } else if (const json::value* pattern = schema.if_contains("pattern")) {
      const std::regex wanted(pattern->as_string().c_str());
      if (!std::regex_match(value.as_string().c_str(), wanted)) {
        add(place + ": is not written like that: " + json::serialize(value).substr(0, 60));
      }
    } else if (const json::value* least = schema.if_contains("minimum")) {
      const auto number =
          value.is_int64() ? value.as_int64() : std::numeric_limits<std::int64_t>::max();
      if (number < least->as_int64() || number > schema.at("maximum").as_int64()) {
        add(place + ": is out of its range: " + json::serialize(value).substr(0, 60));
      }
    } else if (type == "array") {
      const auto& items = value.as_array();
      for (std::size_t i = 0; i < items.size(); ++i) {
        check(schema.at("items").as_object(), items[i], place + "[" + std::to_string(i) + "]");
      }
    } else if (type == "object") {
      check_fields(schema, value.as_object(), place);
    }
  }

  void check_fields(const json::object& schema, const json::object& object,
                    const std::string& place) {
    if (const json::value* required = schema.if_contains("required")) {
      for (const json::value& name : required->as_array()) {
        if (!object.contains(name.as_string())) {
          add(place + "." + std::string(name.as_string()) + ": is missing");
        }
      }
    }
    const json::value* properties = schema.if_contains("properties");
    const json::value* others = schema.if_contains("additionalProperties");
    for (const auto& field : object) {
      const std::string here = place + "." + std::string(field.key());
      const json::value* known =
          properties != nullptr ? properties->as_object().if_contains(field.key()) : nullptr;
      if (known != nullptr) {
        check(known->as_object(), field.value(), here);
      } else if (others != nullptr && others->is_object()) {
        check(others->as_object(), field.value(), here);
      } else if (others == nullptr || *others == json::value(false)) {
        add(here + ": is not described");
      }
    }
  }

  const json::object& document_;
  std::vector<std::string> problems_;
  bool kind_differs_ = false;
};

// The description of what was asked for. Null: there is none.
const json::object* find_operation(const json::object& document, const Traffic& traffic) {
  const auto target = resolve_target(
      {.method = traffic.method, .path = traffic.path, .query = {}, .body = {}, .headers = {}});
  if (!target) return nullptr;
  const json::value* path = document.at("paths").as_object().if_contains(target->route->path);
  const json::value* operation =
      path == nullptr ? nullptr : path->as_object().if_contains(to_lower(traffic.method));
  return operation == nullptr ? nullptr : &operation->as_object();
}

void check_query(Checker& checker, const json::object& operation, const std::string& query) {
  if (query.empty()) return;
  for (const std::string_view part : split(query, '&')) {
    const std::string_view name = part.substr(0, part.find('='));
    const bool known = std::ranges::any_of(
        operation.at("parameters").as_array(), [name](const json::value& parameter) {
          return parameter.at("in") == "query" && parameter.at("name").as_string() == name;
        });
    if (!known) checker.add("?" + std::string(name) + ": was taken and is not described");
  }
}

void check_body(Checker& checker, const json::object& content, const std::string& media,
                const std::string& body, const std::string& place) {
  const std::string kind(trim(std::string_view(media).substr(0, media.find(';'))));
  const json::value* described = content.if_contains(kind);
  if (described == nullptr) {
    checker.add(place + ": " + kind + " is not described");
    return;
  }
  if (!kind.ends_with("json")) return;
  boost::system::error_code code;
  const json::value value = json::parse(body, code);
  if (code) {
    checker.add(place + ": is not JSON: " + code.message());
    return;
  }
  checker.check(described->at("schema").as_object(), value, place);
}

}  // namespace

std::vector<std::string> check_traffic(const json::object& document, const Traffic& traffic) {
  Checker checker(document);
  const json::object* operation = find_operation(document, traffic);
  const bool worked = traffic.status < 400;
  if (operation == nullptr) {
    if (worked) checker.add(traffic.method + " " + traffic.path + ": worked and is not described");
    return checker.take();
  }
  const json::object& responses = operation->at("responses").as_object();
  const json::value* response = responses.if_contains(std::to_string(traffic.status));
  if (response == nullptr) {
    checker.add("status " + std::to_string(traffic.status) + ": is not described");
    return checker.take();
  }
  check_body(checker, response->at("content").as_object(), traffic.content_type, traffic.body,
             "answer");
  if (!worked) return checker.take();
  check_query(checker, *operation, traffic.query);
  const json::value* request = operation->if_contains("requestBody");
  if (!traffic.request_body.empty() && request == nullptr) {
    checker.add("request: a body was taken and is not described");
  } else if (!traffic.request_body.empty()) {
    check_body(checker, request->at("content").as_object(), "application/json",
               traffic.request_body, "request");
  }
  return checker.take();
}

}  // namespace divvy::api
