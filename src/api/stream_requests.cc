#include "api/stream_requests.h"

#include <array>
#include <limits>
#include <utility>

#include "api/json_fields.h"

namespace divvy::api {
namespace {

using Kind = agent::StreamOrder::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 5> kKinds = {{{"exec", Kind::kExec},
                                                                      {"attach", Kind::kAttach},
                                                                      {"copy-in", Kind::kCopyIn},
                                                                      {"copy-out", Kind::kCopyOut},
                                                                      {"port", Kind::kPort}}};

// The shepherd takes 64 KiB of them in all.
constexpr std::size_t kMostWords = 16'384;

Result<Kind> parse_kind(std::string_view text) {
  for (const auto& [word, kind] : kKinds) {
    if (text == word) return kind;
  }
  return err(ErrorCode::kInvalidArgument,
             "\"kind\" is one of exec, attach, copy-in, copy-out and port");
}

Result<std::uint16_t> small(JsonFields& fields, std::string_view name, std::uint16_t otherwise) {
  DIVVY_TRY(number, fields.number(name));
  if (!number) return otherwise;
  if (*number < 1 || *number > std::numeric_limits<std::uint16_t>::max()) {
    return err(ErrorCode::kOutOfRange, "\"{}\" is from 1 to 65535", name);
  }
  return static_cast<std::uint16_t>(*number);
}

Status check(const agent::StreamOrder& order) {
  if (order.kind == Kind::kExec && order.command.empty()) {
    return err(ErrorCode::kInvalidArgument, "\"command\" has to name a program");
  }
  const bool copies = order.kind == Kind::kCopyIn || order.kind == Kind::kCopyOut;
  if (copies && !order.path.starts_with('/')) {
    return err(ErrorCode::kInvalidArgument, "\"path\" has to be a whole one, like /data");
  }
  if (order.kind == Kind::kPort && order.port == 0) {
    return err(ErrorCode::kInvalidArgument, "\"port\" is missing");
  }
  return {};
}

}  // namespace

Result<agent::StreamOrder> parse_stream_request(std::string_view body) {
  DIVVY_TRY(fields, JsonFields::parse(body));
  agent::StreamOrder order;
  DIVVY_TRY(kind_text, fields.text("kind"));
  DIVVY_TRY(kind, parse_kind(kind_text.value_or("")));
  order.kind = kind;
  DIVVY_TRY(rank, fields.number("rank"));
  order.key.rank = rank.value_or(0);
  DIVVY_TRY(command, fields.texts("command", kMostWords));
  order.command = std::move(command);
  DIVVY_TRY(environment, fields.texts("environment", kMostWords));
  for (const std::string& pair : environment) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return err(ErrorCode::kInvalidArgument, "\"environment\" is a list of \"NAME=VALUE\"");
    }
    order.environment[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  DIVVY_TRY(path, fields.text("path"));
  order.path = path.value_or("");
  DIVVY_TRY(terminal, fields.flag("terminal"));
  order.terminal = terminal.value_or(false);
  DIVVY_TRY(rows, small(fields, "rows", order.rows));
  DIVVY_TRY(columns, small(fields, "columns", order.columns));
  DIVVY_TRY(port, small(fields, "port", 0));
  order.rows = rows;
  order.columns = columns;
  order.port = port;
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  DIVVY_RETURN_IF_ERROR(check(order));
  return order;
}

}  // namespace divvy::api
