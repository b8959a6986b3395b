#include "api/openapi.h"

#include <boost/json.hpp>

#include "api/openapi_tables.h"
#include "base/check.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

std::string reference(std::string_view schema) {
  return "#/components/schemas/" + std::string(schema);
}

// One kind as openapi_tables.h writes it, without '?' and '-'.
json::object schema_of(std::string_view kind) {
  if (const auto kinds = split(kind, '|');
      kinds.size() > 1 && !kind.starts_with('[') && !kind.starts_with('{')) {
    json::array any;
    for (const std::string_view one : kinds) any.push_back(schema_of(one));
    return {{"anyOf", std::move(any)}};
  }
  const std::string_view inside = kind.size() > 2 ? kind.substr(1, kind.size() - 2) : kind;
  if (kind.starts_with('[')) return {{"type", "array"}, {"items", schema_of(inside)}};
  if (kind.starts_with('{')) {
    return {{"type", "object"}, {"additionalProperties", schema_of(inside)}};
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
  if (!row.text.empty()) schema["description"] = row.text;
  return schema;
}

json::array parameters_of(const OperationRow& row) {
  json::array parameters;
  for (const std::string_view word : split(row.path, '/')) {
    if (!word.starts_with('{')) continue;
    parameters.push_back(json::object{{"name", word.substr(1, word.size() - 2)},
                                      {"in", "path"},
                                      {"required", true},
                                      {"schema", schema_of("text")}});
  }
  if (!row.query.empty()) {
    for (const std::string_view word : split(row.query, ' ')) {
      const std::size_t middle = word.find(':');
      DIVVY_CHECK(middle != std::string_view::npos, "the query of {}", row.id);
      parameters.push_back(json::object{{"name", word.substr(0, middle)},
                                        {"in", "query"},
                                        {"schema", schema_of(word.substr(middle + 1))}});
    }
  }
  if (row.id == "submitJob") {
    parameters.push_back(
        json::object{{"name", "Idempotency-Key"}, {"in", "header"}, {"schema", schema_of("text")}});
  }
  return parameters;
}

json::object content_of(std::string_view answer) {
  const bool media = answer.find('/') != std::string_view::npos;
  json::object content;
  content[media ? answer : "application/json"] =
      json::object{{"schema", schema_of(media ? "text" : answer)}};
  if (answer == "UsageReport") content["text/csv"] = json::object{{"schema", schema_of("text")}};
  return content;
}

json::object operation_of(const OperationRow& row) {
  json::object works{{"description", "done"}, {"content", content_of(row.answer)}};
  json::object responses;
  responses[std::to_string(row.status)] = works;
  if (row.other_status != 0) responses[std::to_string(row.other_status)] = std::move(works);
  json::object refused;
  refused["application/problem+json"] = json::object{{"schema", schema_of("Problem")}};
  responses["default"] = json::object{{"description", "refused"}, {"content", std::move(refused)}};
  json::object operation{{"operationId", row.id},
                         {"summary", row.text},
                         {"parameters", parameters_of(row)},
                         {"responses", std::move(responses)}};
  if (!row.request.empty()) {
    operation["requestBody"] = json::object{{"content", content_of(row.request)}};
  }
  return operation;
}

}  // namespace

json::object openapi_document() {
  json::object paths;
  for (const OperationRow& row : openapi_operations()) {
    json::value& path = paths[row.path];
    if (!path.is_object()) path.emplace_object();
    path.as_object()[to_lower(row.method)] = operation_of(row);
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

}  // namespace divvy::api
