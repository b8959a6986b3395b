// The documents that the API takes and gives, as tables: one row is one field. openapi.cc describes
// them with these; which route has which stands in routes.cc.
//
// Kinds of values are written short: "text", "integer", "number", "boolean", "object" (whatever is
// in it), the name of another schema, "[kind]" for a list, "{kind}" for a map by names, "a|b" for
// either, "<a,b>" for one of these words, "integer(1..9)" for a range. '?' behind it: may be null.
// '-' behind that: may be missing. And, with what the server takes for them: "id", "position" (in a
// list) and "time" (Unix milliseconds), "count" (not negative), "name", "queue", "state" (of a
// job), "states" (with commas), "seconds" ("30s", or a number), "bytes" ("4GiB", or a number) and
// "share" ("0.3", or a number).
#pragma once

#include <span>
#include <string_view>

namespace divvy::api {

struct FieldRow {
  std::string_view name;
  std::string_view kind;
  std::string_view text;  // What it means, where the name does not say it
};

struct SchemaRow {
  std::string_view name;
  std::string_view text;
  std::span<const FieldRow> fields;
  // Requests and what is in them: a field that is not here is refused. Answers may get new ones.
  bool closed = false;
};

[[nodiscard]] std::span<const SchemaRow> openapi_schemas();

}  // namespace divvy::api
