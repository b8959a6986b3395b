#include "run/shepherd_client.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "run/shepherd_socket.h"

namespace divvy::run {
namespace {

// A shepherd answers at once, or when it has started a program; podman takes a second.
constexpr std::chrono::seconds kPatience{60};

Result<sys::Packet> receive(int socket, std::chrono::milliseconds most) {
  sys::Packet packet = receive_shepherd_packet(socket, most);
  if (packet.outcome == sys::Packet::Outcome::kNothingYet) {
    return err(ErrorCode::kTimeout, "the shepherd does not answer");
  }
  if (packet.outcome == sys::Packet::Outcome::kClosed || !packet.complete) {
    return err(ErrorCode::kUnavailable, "the shepherd is gone");
  }
  return packet;
}

// Only these may be answered with the end of what they could not start.
bool starts_something(const ShepherdRequest& request) {
  return std::holds_alternative<ExecRequest>(request) ||
         std::holds_alternative<CopyRequest>(request);
}

Error refusal(const ShepherdAnswer& answer) {
  return {ErrorCode::kFailedPrecondition, answer.reason};
}

}  // namespace

Result<ShepherdClient> ShepherdClient::begin(const MemberFolder& folder) {
  DIVVY_TRY(socket, connect_to_shepherd(folder.fd()));
  return ShepherdClient(std::move(socket));
}

Result<ShepherdClient> ShepherdClient::begin(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return err(errno == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
               "the folder of this member cannot be entered: {}", std::strerror(errno));
  }
  DIVVY_TRY(socket, connect_to_shepherd(fd.get()));
  return ShepherdClient(std::move(socket));
}

Result<ShepherdClient::Heard> ShepherdClient::ask(const ShepherdRequest& request,
                                                  const std::vector<int>& fds) {
  const std::string text = to_message(request);
  if (text.size() > kMaxShepherdMessage) {
    return err(ErrorCode::kOutOfRange, "the request is longer than {} bytes", kMaxShepherdMessage);
  }
  // A shepherd that is gone may have said the last word before.
  const bool sent = send_shepherd_message(socket_.get(), text, fds);
  for (;;) {
    auto packet = receive(socket_.get(), sent ? kPatience : std::chrono::milliseconds(0));
    if (!packet && !sent) return err(ErrorCode::kUnavailable, "the shepherd is gone");
    if (!packet) return err(std::move(packet).error());
    DIVVY_TRY(answer, parse_shepherd_answer(text_of(*packet)));
    if (answer.kind == ShepherdAnswer::Kind::kRefused) return err(refusal(answer));
    // What runs already may end at any time, also before a later request is answered.
    const bool early = answer.kind == ShepherdAnswer::Kind::kEnded &&
                       (answer.pid > 0 || !starts_something(request));
    if (!early) return Heard{std::move(answer), std::move(packet->fds)};
    end_ = std::move(answer);
  }
}

Result<ShepherdClient::Heard> ShepherdClient::started(const ShepherdRequest& request,
                                                      const std::vector<int>& fds) {
  DIVVY_TRY(heard, ask(request, fds));
  if (heard.answer.kind == ShepherdAnswer::Kind::kStarted) return heard;
  return err(heard.answer.exit_code == 127 ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied,
             "{}", heard.answer.reason);
}

Status ShepherdClient::exec(const ExecRequest& request, const std::vector<int>& streams) {
  DIVVY_RETURN_IF_ERROR(started(request, streams));
  return {};
}

Result<UniqueFd> ShepherdClient::exec_in_terminal(ExecRequest request, TerminalSize size) {
  request.terminal = size;
  DIVVY_TRY(heard, started(request, {}));
  if (heard.fds.size() != 1) return err(ErrorCode::kInternal, "the shepherd sent no terminal");
  return std::move(heard.fds[0]);
}

Status ShepherdClient::copy(const CopyRequest& request, const std::vector<int>& streams) {
  DIVVY_RETURN_IF_ERROR(started(request, streams));
  return {};
}

Result<ShepherdClient::Attached> ShepherdClient::attach() {
  DIVVY_TRY(heard, started(AttachRequest{}, {}));
  if (heard.fds.size() < 2) return err(ErrorCode::kInternal, "the shepherd sent no streams");
  Attached attached{std::move(heard.fds[0]), std::move(heard.fds[1]), std::nullopt};
  if (heard.fds.size() > 2) attached.input = std::move(heard.fds[2]);
  return attached;
}

Status ShepherdClient::close_input() {
  const auto heard = ask(CloseInputRequest{});
  // A member that has ended reads no more.
  if (!heard && !end_) return err(heard.error());
  return {};
}

Status ShepherdClient::signal(int number) {
  DIVVY_RETURN_IF_ERROR(ask(SignalRequest{number}));
  return {};
}

Result<std::optional<ShepherdAnswer>> ShepherdClient::ended(std::chrono::milliseconds most) {
  if (end_) return end_;
  auto packet = receive(socket_.get(), most);
  if (!packet && packet.error().code == ErrorCode::kTimeout) return std::optional<ShepherdAnswer>();
  if (!packet) return err(packet.error());
  DIVVY_TRY(answer, parse_shepherd_answer(text_of(*packet)));
  if (answer.kind == ShepherdAnswer::Kind::kRefused) return err(refusal(answer));
  end_ = std::move(answer);
  return end_;
}

Status ask_shepherd(const MemberFolder& folder, const ShepherdRequest& request,
                    std::chrono::milliseconds most) {
  DIVVY_TRY(socket, connect_to_shepherd(folder.fd()));
  if (!send_shepherd_message(socket.get(), to_message(request))) {
    return err(ErrorCode::kUnavailable, "the shepherd is gone");
  }
  DIVVY_TRY(packet, receive(socket.get(), most));
  DIVVY_TRY(answer, parse_shepherd_answer(text_of(packet)));
  if (answer.kind == ShepherdAnswer::Kind::kRefused) return err(refusal(answer));
  return {};
}

}  // namespace divvy::run
