// What the API server says to whoever goes into a pod, and hears of them: the messages of a
// WebSocket on `exec`, `attach` and `portforward`, as kubectl speaks it (v5.channel.k8s.io, and v4
// where a server knows no other). The first byte of each message is its channel. Pure; any bytes
// are safe to read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::kube {

enum class PodChannel : std::uint8_t {
  kInput = 0,
  kOutput = 1,
  kErrors = 2,
  kStatus = 3,  // how it ended; the last one
  kResize = 4,
  kClose = 255,  // what follows is the channel that is at its end; v5 only
};

// In the order in which they are liked.
inline constexpr std::string_view kExecProtocols = "v5.channel.k8s.io, v4.channel.k8s.io";
inline constexpr std::string_view kCloseProtocol = "v5.channel.k8s.io";
inline constexpr std::string_view kPortProtocol = "v4.channel.k8s.io";

[[nodiscard]] std::string channel_message(PodChannel channel, std::string_view bytes);
[[nodiscard]] std::string close_message(PodChannel channel);
[[nodiscard]] std::string resize_message(std::uint16_t rows, std::uint16_t columns);

// kDataLoss: it is no message of these protocols. Channels that are not known are passed on as
// numbers.
[[nodiscard]] Result<std::pair<PodChannel, std::string_view>> read_channel_message(
    std::string_view message);

// The exit status that the last message tells. kNotFound: the container has no such program;
// kFailedPrecondition: it could not be started; kUnavailable: nobody knows how it ended.
[[nodiscard]] Result<std::int32_t> read_pod_status(std::string_view text);

// The path and query of a request to go into a container. With a command: exec, otherwise attach.
struct PodVisit {
  std::string space;
  std::string pod;
  std::string container;
  std::vector<std::string> command = {};
  bool input = false;
  bool terminal = false;
};
[[nodiscard]] std::string visit_path(const PodVisit& visit);
[[nodiscard]] std::string port_path(const std::string& space, const std::string& pod,
                                    std::uint16_t port);

}  // namespace divvy::kube
