#include "api/stream_requests.h"

#include <array>
#include <utility>

#include "model/json_fields.h"

namespace divvy::api {
namespace {

using Kind = agent::StreamOrder::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 5> kKinds = {{{"exec", Kind::kExec},
                                                                      {"attach", Kind::kAttach},
                                                                      {"copy-in", Kind::kCopyIn},
                                                                      {"copy-out", Kind::kCopyOut},
                                                                      {"port", Kind::kPort}}};

constexpr std::string_view kKindsText = "this has to be exec, attach, copy-in, copy-out or port";

// The shepherd takes 64 KiB of them in all.
constexpr std::size_t kMostWords = 16'384;

Result<Kind> parse_kind(std::string_view text) {
  for (const auto& [word, kind] : kKinds) {
    if (text == word) return kind;
  }
  return err(ErrorCode::kInvalidArgument, "{}", kKindsText);
}

// From 1 on, like ports and rows.
void read_size(model::JsonFields& fields, std::string_view name, std::uint16_t& into) {
  fields.read(name, into);
  if (fields.has(name) && into == 0) fields.refuse(name, "this has to be from 1 to 65535");
}

void read_words(model::JsonFields& fields, std::string_view name, std::vector<std::string>& into) {
  fields.read(name, into);
  if (into.size() > kMostWords) {
    fields.refuse(name, fmt::format("these are {}; {} are possible", into.size(), kMostWords));
  }
}

Status check(const agent::StreamOrder& order) {
  if (order.kind == Kind::kExec && order.command.empty()) {
    return err(ErrorCode::kInvalidArgument, "command: name a program");
  }
  const bool copies = order.kind == Kind::kCopyIn || order.kind == Kind::kCopyOut;
  if (copies && !order.path.starts_with('/')) {
    return err(ErrorCode::kInvalidArgument, "path: name it from / on, like /data");
  }
  if (order.kind == Kind::kPort && order.port == 0) {
    return err(ErrorCode::kInvalidArgument, "port: it is missing");
  }
  return {};
}

}  // namespace

Result<agent::StreamOrder> parse_stream_request(std::string_view body) {
  DIVVY_TRY(document, model::parse_json(body));
  model::JsonFields fields(document);
  agent::StreamOrder order;
  std::vector<std::string> environment;
  if (!fields.has("kind")) fields.refuse("kind", kKindsText);
  order.kind = fields.parsed("kind", parse_kind).value_or(order.kind);
  fields.read("rank", order.key.rank);
  read_words(fields, "command", order.command);
  read_words(fields, "environment", environment);
  for (const std::string& pair : environment) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      fields.refuse("environment", "this has to be a list of \"NAME=VALUE\"");
      break;
    }
    order.environment[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  fields.read("path", order.path);
  fields.read("terminal", order.terminal);
  read_size(fields, "rows", order.rows);
  read_size(fields, "columns", order.columns);
  read_size(fields, "port", order.port);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_RETURN_IF_ERROR(check(order));
  return order;
}

}  // namespace divvy::api
