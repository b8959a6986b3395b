#include "kube/pod_channels.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/json_view.h"
#include "kube/resource_path.h"
#include "kube/whole_number.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// Of what a server says that somebody else wrote.
constexpr std::size_t kLongestReason = 500;

std::string shown(std::string_view text) {
  return escape_for_terminal(text.substr(0, kLongestReason));
}

}  // namespace

std::string channel_message(PodChannel channel, std::string_view bytes) {
  std::string message(1, static_cast<char>(channel));
  message += bytes;
  return message;
}

std::string close_message(PodChannel channel) {
  const char closed = static_cast<char>(channel);
  return channel_message(PodChannel::kClose, {&closed, 1});
}

std::string resize_message(std::uint16_t rows, std::uint16_t columns) {
  return channel_message(PodChannel::kResize,
                         json::serialize(json::object{{"Width", columns}, {"Height", rows}}));
}

Result<std::pair<PodChannel, std::string_view>> read_channel_message(std::string_view message) {
  if (message.empty()) return err(ErrorCode::kDataLoss, "a message without a channel");
  const auto channel = static_cast<PodChannel>(static_cast<std::uint8_t>(message.front()));
  return std::pair(channel, message.substr(1));
}

Result<std::int32_t> read_pod_status(std::string_view text) {
  boost::system::error_code code;
  const json::value value = json::parse(text, code);
  const json::object* const status = code ? nullptr : value.if_object();
  if (status == nullptr) {
    return err(ErrorCode::kUnavailable, "the API server does not say how it ended");
  }
  if (text_at(*status, {"status"}) == "Success") return 0;
  for (const json::value& one : array_at(*status, {"details", "causes"})) {
    const json::object* const cause = one.if_object();
    if (cause == nullptr || text_at(*cause, {"reason"}) != "ExitCode") continue;
    const auto exit_code = parse_whole_number<std::int32_t>(text_at(*cause, {"message"}));
    if (exit_code) return *exit_code;
  }
  const std::string_view message = text_at(*status, {"message"});
  const auto says = [message](std::string_view what) {
    return message.find(what) != std::string_view::npos;
  };
  if (says("executable file not found") || says("no such file or directory")) {
    return err(ErrorCode::kNotFound, "the container has no such program: {}", shown(message));
  }
  if (says("OCI runtime") || says("permission denied")) {
    return err(ErrorCode::kFailedPrecondition, "it cannot be started: {}", shown(message));
  }
  return err(ErrorCode::kUnavailable, "it is not known how it ended: {}",
             message.empty() ? "the API server does not say" : shown(message));
}

std::string visit_path(const PodVisit& visit) {
  std::string path = fmt::format(
      "/api/v1/namespaces/{}/pods/{}/{}?container={}&stdout=true&stderr={}&stdin={}&tty={}",
      percent_encode(visit.space), percent_encode(visit.pod),
      visit.command.empty() ? "attach" : "exec", percent_encode(visit.container),
      // A terminal has one stream for both.
      !visit.terminal, visit.input, visit.terminal);
  for (const std::string& word : visit.command) path += "&command=" + percent_encode(word);
  return path;
}

std::string port_path(const std::string& space, const std::string& pod, std::uint16_t port) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}/portforward?ports={}", percent_encode(space),
                     percent_encode(pod), port);
}

}  // namespace divvy::kube
