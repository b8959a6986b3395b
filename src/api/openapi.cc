#include "api/openapi.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <utility>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/openapi_schemas.h"
#include "api/routes.h"
#include "base/check.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

std::string reference(std::string_view schema) {
  return "#/components/schemas/" + std::string(schema);
}

// model/name.h
constexpr std::string_view kName = "[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?";

constexpr std::pair<std::string_view, std::string_view> kShortNames[] = {
    {"id", "integer(1..9223372036854775807)"},
    {"position", "integer(0..9223372036854775807)"},
    {"time", "integer(0..9223372036854)"},
    {"count", "integer(0..4294967295)"},
    {"seconds", "text|integer(0..316224000)"},
    {"bytes", "text|integer(0..9223372036854775807)"},
    {"share", "text|number"},
    {"state", "<queued,starting,running,stopping,suspended,succeeded,failed,cancelled>"}};

// What any request may be refused for: it is wrong, it is not allowed, there are too many of them,
// or the daemon cannot answer now.
constexpr std::string_view kAlways = "400 401 403 413 429 500 503";

std::int64_t whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  DIVVY_CHECK(read.ec == std::errc() && read.ptr == text.data() + text.size(), "the number {}",
              text);
  return number;
}

std::string_view meaning_of(std::string_view status) {
  constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"400", "the request is wrong; the detail says where"},
      {"401", "no token, or one that is not valid"},
      {"403", "not for this user"},
      {"404", "there is no such thing"},
      {"409", "not as things stand"},
      {"413", "the request is too large"},
      {"426", "send the header Upgrade"},
      {"429", "too many requests"},
      {"500", "the daemon could not do it"},
      {"501", "not supported here"},
      {"503", "not now; try again later"},
      {"504", "it took too long"}};
  const auto* const found =
      std::ranges::find(kMeanings, status, &std::pair<std::string_view, std::string_view>::first);
  DIVVY_CHECK(found != std::end(kMeanings), "status {}", status);
  return found->second;
}

// One kind as openapi_schemas.h writes it, without '?' and '-'.
json::object schema_of(std::string_view kind) {
  if (const auto kinds = split(kind, '|');
      kinds.size() > 1 && !kind.starts_with('[') && !kind.starts_with('{')) {
    json::array any;
    for (const std::string_view one : kinds) any.push_back(schema_of(one));
    return {{"anyOf", std::move(any)}};
  }
  const std::string_view inside = kind.size() >= 2 ? kind.substr(1, kind.size() - 2) : kind;
  if (kind.starts_with('[')) return {{"type", "array"}, {"items", schema_of(inside)}};
  if (kind.starts_with('{')) {
    return {{"type", "object"}, {"additionalProperties", schema_of(inside)}};
  }
  if (kind.starts_with('<')) {
    json::array words;
    for (const std::string_view word : split(inside, ',')) words.emplace_back(word);
    return {{"type", "string"}, {"enum", std::move(words)}};
  }
  if (const std::size_t range = kind.find('('); range != std::string_view::npos) {
    const auto ends = split(kind.substr(range + 1, kind.size() - range - 2), '.');
    return {{"type", kind.substr(0, range)},
            {"minimum", whole_number(ends.front())},
            {"maximum", whole_number(ends.back())}};
  }
  for (const auto& [short_name, meaning] : kShortNames) {
    if (kind == short_name) return schema_of(meaning);
  }
  if (kind == "name") return {{"type", "string"}, {"pattern", fmt::format("^{}$", kName)}};
  if (kind == "queue") {
    return {{"type", "string"}, {"pattern", fmt::format("^{0}(/{0}){{0,7}}$", kName)}};
  }
  if (kind == "states") {
    return {{"type", "string"},
            {"pattern",
             "^(queued|starting|running|stopping|suspended|succeeded|failed|cancelled|,)*$"}};
  }
  if (kind == "text") return {{"type", "string"}};
  if (kind == "object") return {{"type", "object"}, {"additionalProperties", true}};
  if (kind == "integer" || kind == "number" || kind == "boolean") return {{"type", kind}};
  return {{"$ref", reference(kind)}};
}

json::object field_schema(const FieldRow& field, bool& required) {
  std::string_view kind = field.kind;
  required = !kind.ends_with('-');
  if (!required) kind.remove_suffix(1);
  const bool nullable = kind.ends_with('?');
  if (nullable) kind.remove_suffix(1);
  json::object schema = schema_of(kind);
  if (nullable) {
    json::array any{std::move(schema), json::object{{"type", "null"}}};
    schema = json::object{{"anyOf", std::move(any)}};
  }
  if (!field.text.empty()) schema["description"] = field.text;
  return schema;
}

json::object object_schema(const SchemaRow& row) {
  json::object properties;
  json::array required;
  for (const FieldRow& field : row.fields) {
    bool always = false;
    properties[field.name] = field_schema(field, always);
    if (always) required.emplace_back(field.name);
  }
  json::object schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  if (row.closed) schema["additionalProperties"] = false;
  if (!row.text.empty()) schema["description"] = row.text;
  return schema;
}

// What stands in the path, by what the handler takes.
std::string_view path_kind(const Route& route) {
  if (std::holds_alternative<JobHandler>(route.handler)) return "id";
  return std::holds_alternative<QueueHandler>(route.handler) ? "queue" : "name";
}

json::array parameters_of(const Route& route) {
  json::array parameters;
  if (const std::size_t open = route.path.find('{'); open != std::string_view::npos) {
    parameters.push_back(
        json::object{{"name", route.path.substr(open + 1, route.path.find('}') - open - 1)},
                     {"in", "path"},
                     {"required", true},
                     {"schema", schema_of(path_kind(route))}});
  }
  if (!route.described.query.empty()) {
    for (const std::string_view word : split(route.described.query, ' ')) {
      const std::size_t middle = word.find(':');
      DIVVY_CHECK(middle != std::string_view::npos, "the query of {}", route.id);
      parameters.push_back(json::object{{"name", word.substr(0, middle)},
                                        {"in", "query"},
                                        {"schema", schema_of(word.substr(middle + 1))}});
    }
  }
  if (!route.described.header.empty()) {
    parameters.push_back(json::object{
        {"name", route.described.header}, {"in", "header"}, {"schema", schema_of("text")}});
  }
  return parameters;
}

// Schemas, and media types with a slash in them.
json::object content_of(std::initializer_list<std::string_view> bodies) {
  json::object content;
  for (const std::string_view body : bodies) {
    if (body.empty()) continue;
    const bool media = body.find('/') != std::string_view::npos;
    content[media ? body : "application/json"] =
        json::object{{"schema", schema_of(media ? "text" : body)}};
  }
  return content;
}

json::object operation_of(const Route& route) {
  const Description& described = route.described;
  json::object works{{"description", "done"},
                     {"content", content_of({described.answer, described.other_answer})}};
  json::object responses;
  responses[std::to_string(described.status)] = works;
  if (described.other_status != 0) {
    responses[std::to_string(described.other_status)] = std::move(works);
  }
  json::object refused;
  refused["application/problem+json"] = json::object{{"schema", schema_of("Problem")}};
  const std::string refusals = fmt::format("{} {}", kAlways, described.refusals);
  for (const std::string_view status : split(trim(refusals), ' ')) {
    responses[status] = json::object{{"description", meaning_of(status)}, {"content", refused}};
  }
  json::object operation{{"operationId", route.id},
                         {"summary", route.text},
                         {"parameters", parameters_of(route)},
                         {"responses", std::move(responses)}};
  if (!described.request.empty()) {
    operation["requestBody"] = json::object{{"required", !described.may_be_empty},
                                            {"content", content_of({described.request})}};
  }
  return operation;
}

}  // namespace

json::object openapi_document() {
  json::object paths;
  for (const Route& route : routes()) {
    json::value& path = paths[route.path];
    if (!path.is_object()) path.emplace_object();
    path.as_object()[to_lower(route.method)] = operation_of(route);
  }
  json::object schemas;
  for (const SchemaRow& row : openapi_schemas()) schemas[row.name] = object_schema(row);
  const json::object bearer{{"type", "http"}, {"scheme", "bearer"}};
  return {{"openapi", "3.1.0"},
          {"info", json::object{{"title", "Divvy"},
                                {"version", "v1"},
                                {"description",
                                 "Shares GPUs. Fields are added, never renamed or "
                                 "taken away."}}},
          {"paths", std::move(paths)},
          {"components", json::object{{"schemas", std::move(schemas)},
                                      {"securitySchemes", json::object{{"token", bearer}}}}},
          // Over the network; nothing on the socket.
          {"security", json::array{json::object{{"token", json::array{}}}, json::object{}}}};
}

Answer get_openapi() { return answer(200, openapi_document()); }

}  // namespace divvy::api
