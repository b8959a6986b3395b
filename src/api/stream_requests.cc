#include "api/stream_requests.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "api/query.h"
#include "base/text.h"
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

// 256 random bits, so that nobody finds another's.
Status check_name(std::string_view name) {
  const bool fine = name.size() == 64 && std::ranges::all_of(name, [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  if (fine) return {};
  return err(ErrorCode::kInvalidArgument, "channel: this has to be 64 digits of 0-9 and a-f");
}

}  // namespace

Result<agent::StreamOrder> parse_channel_request(std::string_view body) {
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
  fields.read("channel", order.channel);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_RETURN_IF_ERROR(check(order));
  DIVVY_RETURN_IF_ERROR(check_name(order.channel));
  return order;
}

Result<agent::StreamOrder> parse_join_query(const std::string& text) {
  DIVVY_TRY(query, Query::parse(text));
  agent::StreamOrder order;
  order.kind = Kind::kJoin;
  order.channel = query.text("channel").value_or("");
  DIVVY_TRY(rank, query.number("rank"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  DIVVY_RETURN_IF_ERROR(check_name(order.channel));
  order.key.rank = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rank.value_or(0), std::numeric_limits<std::uint32_t>::max()));
  return order;
}

bool offers_channel(std::string_view protocols) {
  return std::ranges::any_of(split(protocols, ','),
                             [](std::string_view one) { return trim(one) == kChannelSubprotocol; });
}

}  // namespace divvy::api
