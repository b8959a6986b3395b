#include "kube_api/pod_visit.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "kube/pod_channels.h"
#include "sys/frames.h"

namespace divvy::kube_api {
namespace {

using kube::PodChannel;

// Messages are at most that long (net::TunnelOf).
constexpr std::size_t kLongestMessage = std::size_t{128} << 10;
constexpr std::size_t kPiece = std::size_t{32} << 10;
// Beyond it nothing more is read that would have to be kept.
constexpr std::size_t kMostKept = std::size_t{256} << 10;
// What a shell says of a program that is not there.
constexpr std::int32_t kNoSuchProgram = 127;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Both ends and what is on its way between them.
class Ends {
 public:
  Ends(int pod, int caller) : pod_(pod), caller_(caller) {}

  // Waits until something can be done. False: the caller is gone.
  [[nodiscard]] bool wait(bool pod_ended, bool caller_ended) {
    const bool from_caller = !caller_ended && to_pod_size_ < kMostKept;
    const bool from_pod = to_caller_.size() < kMostKept;
    waits_[0] = {caller_, events(from_caller, !to_caller_.empty()), 0};
    waits_[1] = {pod_ended ? -1 : pod_, events(from_pod, !to_pod_.empty()), 0};
    while (::poll(waits_.data(), waits_.size(), -1) < 0) {
      if (errno != EINTR) return false;
    }
    return (waits_[0].revents & (POLLERR | POLLHUP)) == 0 || (waits_[0].revents & POLLIN) != 0;
  }
  [[nodiscard]] bool caller_speaks() const { return (waits_[0].revents & POLLIN) != 0; }
  [[nodiscard]] bool pod_speaks() const {
    return (waits_[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  }

  void tell_pod(std::string message) {
    to_pod_size_ += message.size();
    to_pod_.push_back(std::move(message));
  }
  void tell_caller(std::string_view bytes) { to_caller_ += bytes; }
  [[nodiscard]] bool caller_has_all() const { return to_caller_.empty(); }

  // False: the one that it is for is gone.
  [[nodiscard]] bool send() {
    while (!to_pod_.empty()) {
      const std::string& next = to_pod_.front();
      if (::send(pod_, next.data(), next.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (would_block()) break;
        // Its end is read.
        to_pod_.clear();
        to_pod_size_ = 0;
        break;
      }
      to_pod_size_ -= next.size();
      to_pod_.pop_front();
    }
    while (!to_caller_.empty()) {
      const ssize_t sent =
          ::send(caller_, to_caller_.data(), to_caller_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return would_block();
      to_caller_.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Nothing: the end. Empty: nothing came.
  [[nodiscard]] std::optional<std::string_view> hear(int fd, std::size_t most) {
    const ssize_t got = ::recv(fd, buffer_.data(), most, MSG_DONTWAIT);
    if (got > 0) return std::string_view(buffer_.data(), static_cast<std::size_t>(got));
    if (got < 0 && would_block()) return std::string_view();
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::string_view> hear_pod() { return hear(pod_, kLongestMessage); }
  [[nodiscard]] std::optional<std::string_view> hear_caller() { return hear(caller_, kPiece); }

 private:
  static short events(bool in, bool out) {
    return static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0));
  }

  const int pod_;
  const int caller_;
  std::array<pollfd, 2> waits_{};
  std::deque<std::string> to_pod_;
  std::size_t to_pod_size_ = 0;
  std::string to_caller_;
  std::array<char, kLongestMessage> buffer_;
};

class Visit {
 public:
  explicit Visit(PodVisitor visitor)
      : visitor_(std::move(visitor)),
        ends_(std::make_unique<Ends>(visitor_.pod->fd(), visitor_.caller.get())),
        tells_end_(visitor_.pod->protocol() == kube::kCloseProtocol) {}

  void run() {
    tell(sys::StartedFrame{visitor_.takes_input});
    while (ends_->send() && !(ended_ && ends_->caller_has_all())) {
      if (!ends_->wait(ended_, false)) return;
      if (ends_->caller_speaks() && !hear_caller()) return;
      if (!ended_ && ends_->pod_speaks()) hear_pod();
    }
  }

 private:
  void tell(const sys::Frame& frame) { ends_->tell_caller(sys::to_bytes(frame)); }
  void end(const sys::Frame& frame) {
    tell(frame);
    ended_ = true;
  }

  // False: they are gone, or speak something else.
  bool hear_caller() {
    const auto piece = ends_->hear_caller();
    if (!piece) return false;
    frames_.add(*piece);
    for (;;) {
      const auto frame = frames_.next();
      if (!frame) return false;
      if (!*frame) return true;
      handle(**frame);
    }
  }

  void handle(const sys::Frame& frame) {
    if (ended_) return;
    if (const auto* const input = std::get_if<sys::InputFrame>(&frame)) {
      if (!visitor_.takes_input || input->bytes.empty()) return;
      ends_->tell_pod(kube::channel_message(PodChannel::kInput, input->bytes));
    } else if (std::holds_alternative<sys::InputEndFrame>(frame)) {
      // Older servers cannot be told.
      if (visitor_.takes_input && tells_end_) {
        ends_->tell_pod(kube::close_message(PodChannel::kInput));
      }
    } else if (const auto* const size = std::get_if<sys::WindowFrame>(&frame)) {
      if (visitor_.terminal) ends_->tell_pod(kube::resize_message(size->rows, size->columns));
    } else if (const auto* const signal = std::get_if<sys::SignalFrame>(&frame)) {
      pass_signal(signal->signal);
    }
  }

  // Nothing of these protocols carries one. A terminal makes them of what is typed; without one
  // there is only to hang up, as kubectl does.
  void pass_signal(std::int32_t number) {
    if (visitor_.terminal && (number == SIGINT || number == SIGQUIT)) {
      const char typed = number == SIGINT ? '\x03' : '\x1c';
      ends_->tell_pod(kube::channel_message(PodChannel::kInput, {&typed, 1}));
      return;
    }
    end(sys::EndFrame{.exit_code = 0, .signal = number, .reason = "hung up"});
  }

  void hear_pod() {
    const auto bytes = ends_->hear_pod();
    if (!bytes) {
      // Attached to one that ended at this moment.
      if (visitor_.how_it_ended) return end_as_told();
      return end(sys::RefusedFrame{{ErrorCode::kUnavailable,
                                    "the connection to the pod was lost; it is not known how it "
                                    "ended"}});
    }
    const auto message = kube::read_channel_message(*bytes);
    if (!message) return;
    const auto& [channel, content] = *message;
    // Each channel begins with an empty message.
    if (channel == PodChannel::kOutput && !content.empty()) {
      tell(sys::OutputFrame{std::string(content)});
    } else if (channel == PodChannel::kErrors && !content.empty()) {
      tell(sys::ErrorFrame{std::string(content)});
    } else if (channel == PodChannel::kStatus && !content.empty()) {
      end_with(kube::read_pod_status(content));
    }
  }

  void end_with(const Result<std::int32_t>& status) {
    if (status && visitor_.how_it_ended) return end_as_told();
    if (status) return end(sys::EndFrame{.exit_code = *status, .signal = 0, .reason = {}});
    if (visitor_.copies && status.error().code == ErrorCode::kNotFound) {
      return end(sys::EndFrame{.exit_code = kNoSuchProgram, .signal = 0, .reason = {}});
    }
    end(sys::RefusedFrame{status.error()});
  }
  void end_as_told() {
    const auto status = visitor_.how_it_ended();
    if (!status) return end(sys::RefusedFrame{status.error()});
    end(sys::EndFrame{.exit_code = *status, .signal = 0, .reason = {}});
  }

  PodVisitor visitor_;
  std::unique_ptr<Ends> ends_;
  const bool tells_end_;
  sys::FrameReader frames_;
  bool ended_ = false;
};

// Data and errors of one port: each begins with the number of the port.
class Port {
 public:
  Port(std::unique_ptr<kube::PodConnection> pod, UniqueFd caller)
      : pod_(std::move(pod)),
        caller_(std::move(caller)),
        ends_(std::make_unique<Ends>(pod_->fd(), caller_.get())) {}

  void run() {
    while (ends_->send() && !(ended_ && ends_->caller_has_all())) {
      if (!ends_->wait(ended_, silent_)) return;
      if (!silent_ && ends_->caller_speaks()) hear_caller();
      if (!ended_ && ends_->pod_speaks()) hear_pod();
    }
  }

 private:
  static constexpr std::uint8_t kData = 0;
  static constexpr std::uint8_t kErrors = 1;
  static constexpr std::size_t kPortNumber = 2;  // bytes

  void hear_caller() {
    const auto bytes = ends_->hear_caller();
    // They say no more, and still listen; this protocol has no word for it.
    if (!bytes) {
      silent_ = true;
    } else if (!bytes->empty()) {
      ends_->tell_pod(kube::channel_message(PodChannel{kData}, *bytes));
    }
  }
  void hear_pod() {
    const auto bytes = ends_->hear_pod();
    if (!bytes) {
      ended_ = true;
      return;
    }
    const auto message = kube::read_channel_message(*bytes);
    if (!message) return;
    const auto channel = static_cast<std::uint8_t>(message->first);
    if (channel > kErrors) return;
    std::string_view content = message->second;
    const std::size_t number = std::min(content.size(), left_of_number_[channel]);
    left_of_number_[channel] -= number;
    content.remove_prefix(number);
    if (content.empty()) return;
    if (channel == kErrors) {
      // Nobody listens there, say. Whoever connected sees a connection that ends.
      ended_ = true;
    } else {
      ends_->tell_caller(content);
    }
  }

  const std::unique_ptr<kube::PodConnection> pod_;
  const UniqueFd caller_;
  std::unique_ptr<Ends> ends_;
  std::array<std::size_t, 2> left_of_number_{kPortNumber, kPortNumber};
  bool silent_ = false;
  bool ended_ = false;
};

}  // namespace

void carry_visit(PodVisitor visitor) { Visit(std::move(visitor)).run(); }

void carry_port(std::unique_ptr<kube::PodConnection> pod, UniqueFd caller) {
  Port(std::move(pod), std::move(caller)).run();
}

}  // namespace divvy::kube_api
