// The body that opens a channel into a member, and the query that joins it. Pure, callable from any
// thread.
#pragma once

#include <string_view>

#include "agent/orders.h"
#include "base/result.h"

namespace divvy::api {

// Inside a WebSocket: one end of a channel (sys/channel.h).
inline constexpr std::string_view kChannelProtocol = "websocket";
// What it is called among the protocols that the client of a WebSocket may offer. A browser has to,
// because the key of its session is one of them (api/session.h), and wants to hear one of them
// back.
inline constexpr std::string_view kChannelSubprotocol = "divvy.channel.v1";

// The member is one of its rank; job and attempt are the caller's to fill in. Whoever opens it has
// made up its name: 64 hexadecimal digits.
[[nodiscard]] Result<agent::StreamOrder> parse_channel_request(std::string_view body);
// "channel=NAME&rank=0" of GET /v1/jobs/{id}/channels.
[[nodiscard]] Result<agent::StreamOrder> parse_join_query(const std::string& query);
// Whether "Sec-WebSocket-Protocol" of a request has kChannelSubprotocol in its list.
[[nodiscard]] bool offers_channel(std::string_view protocols);

}  // namespace divvy::api
