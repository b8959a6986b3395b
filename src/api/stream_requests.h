// The bodies of POST /v1/jobs/{id}/stream and /channels, and the query that joins a channel. Pure,
// callable from any thread.
#pragma once

#include <string_view>

#include "agent/orders.h"
#include "base/result.h"

namespace divvy::api {

// What the connection speaks after the upgrade: frames of sys/frames.h.
inline constexpr std::string_view kStreamProtocol = "divvy-stream";
// Inside a WebSocket: one end of a channel (sys/channel.h).
inline constexpr std::string_view kChannelProtocol = "websocket";
// What it is called among the protocols that the client of a WebSocket may offer. A browser has to,
// because the key of its session is one of them (api/session.h), and wants to hear one of them
// back.
inline constexpr std::string_view kChannelSubprotocol = "divvy.channel.v1";

// The member is one of its rank; job and attempt are the caller's to fill in.
[[nodiscard]] Result<agent::StreamOrder> parse_stream_request(std::string_view body);

// The same with the name of a channel, which whoever opens it has made up: 64 hexadecimal digits.
[[nodiscard]] Result<agent::StreamOrder> parse_channel_request(std::string_view body);
// "channel=NAME&rank=0" of GET /v1/jobs/{id}/channels.
[[nodiscard]] Result<agent::StreamOrder> parse_join_query(const std::string& query);
// Whether "Sec-WebSocket-Protocol" of a request has kChannelSubprotocol in its list.
[[nodiscard]] bool offers_channel(std::string_view protocols);

}  // namespace divvy::api
