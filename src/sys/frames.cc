#include "sys/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace divvy::sys {
namespace {

constexpr std::size_t kHead = 5;
constexpr std::size_t kLineHead = 10;
constexpr std::size_t kLongestText = 4096;  // of a reason or a message

enum class Kind : std::uint8_t {
  kInput = 1,
  kInputEnd = 2,
  kSignal = 3,
  kWindow = 4,
  kOutput = 16,
  kError = 17,
  kLine = 18,
  kCaughtUp = 19,
  kStarted = 20,
  kEnd = 21,
  kRefused = 22,
};

template <typename Number>
void put(std::string& bytes, Number number) {
  auto rest = static_cast<std::make_unsigned_t<Number>>(number);
  for (std::size_t i = 0; i < sizeof rest; ++i) {
    bytes += static_cast<char>(rest & 0xFFU);
    if constexpr (sizeof rest > 1) rest = static_cast<decltype(rest)>(rest >> 8U);
  }
}

template <typename Number>
Number get(std::string_view bytes, std::size_t at) {
  std::make_unsigned_t<Number> number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    const auto byte =
        static_cast<std::make_unsigned_t<Number>>(static_cast<unsigned char>(bytes[at + i]));
    number = static_cast<decltype(number)>(number | (byte << (8 * i)));
  }
  return static_cast<Number>(number);
}

std::string framed(Kind kind, std::string_view payload = {}) {
  std::string bytes;
  bytes.reserve(kHead + payload.size());
  bytes += static_cast<char>(kind);
  put(bytes, static_cast<std::uint32_t>(payload.size()));
  bytes += payload;
  return bytes;
}

std::string split_up(Kind kind, std::string_view payload) {
  std::string bytes;
  do {
    bytes += framed(kind, payload.substr(0, kMaxFrame));
    payload.remove_prefix(std::min(payload.size(), kMaxFrame));
  } while (!payload.empty());
  return bytes;
}

std::string write(const InputFrame& frame) { return split_up(Kind::kInput, frame.bytes); }
std::string write(const InputEndFrame& /*frame*/) { return framed(Kind::kInputEnd); }
std::string write(const SignalFrame& frame) {
  std::string payload;
  put(payload, frame.signal);
  return framed(Kind::kSignal, payload);
}
std::string write(const WindowFrame& frame) {
  std::string payload;
  put(payload, frame.rows);
  put(payload, frame.columns);
  return framed(Kind::kWindow, payload);
}
std::string write(const OutputFrame& frame) { return split_up(Kind::kOutput, frame.bytes); }
std::string write(const ErrorFrame& frame) { return split_up(Kind::kError, frame.bytes); }
std::string write(const LineFrame& frame) {
  std::string bytes;
  std::string_view text = frame.text;
  bool last = false;
  do {
    last = text.size() <= kMaxFrame - kLineHead;
    std::string payload;
    put(payload, std::int64_t{frame.at.time_since_epoch().count()});
    put(payload, static_cast<std::uint8_t>(frame.stream));
    put(payload, static_cast<std::uint8_t>(last && frame.whole));
    payload += text.substr(0, kMaxFrame - kLineHead);
    bytes += framed(Kind::kLine, payload);
    text.remove_prefix(std::min(text.size(), kMaxFrame - kLineHead));
  } while (!last);
  return bytes;
}
std::string write(const CaughtUpFrame& /*frame*/) { return framed(Kind::kCaughtUp); }
std::string write(const StartedFrame& frame) {
  return framed(Kind::kStarted, frame.takes_input ? "\1" : std::string_view("\0", 1));
}
std::string write(const EndFrame& frame) {
  std::string payload;
  put(payload, frame.exit_code);
  put(payload, frame.signal);
  payload += frame.reason.substr(0, kLongestText);
  return framed(Kind::kEnd, payload);
}
std::string write(const RefusedFrame& frame) {
  std::string payload;
  put(payload, static_cast<std::uint8_t>(frame.error.code));
  payload += frame.error.message.substr(0, kLongestText);
  return framed(Kind::kRefused, payload);
}

// Nothing: there is no such frame.
std::optional<Frame> read(Kind kind, std::string_view payload) {
  const std::size_t size = payload.size();
  switch (kind) {
    case Kind::kInput:
      return InputFrame{std::string(payload)};
    case Kind::kInputEnd:
      if (size == 0) return InputEndFrame{};
      break;
    case Kind::kSignal:
      if (size == 4) return SignalFrame{get<std::int32_t>(payload, 0)};
      break;
    case Kind::kWindow:
      if (size == 4) {
        return WindowFrame{get<std::uint16_t>(payload, 0), get<std::uint16_t>(payload, 2)};
      }
      break;
    case Kind::kOutput:
      return OutputFrame{std::string(payload)};
    case Kind::kError:
      return ErrorFrame{std::string(payload)};
    case Kind::kLine: {
      if (size < kLineHead) break;
      const auto stream = get<std::uint8_t>(payload, 8);
      const auto whole = get<std::uint8_t>(payload, 9);
      if (stream > static_cast<std::uint8_t>(LineStream::kDivvy) || whole > 1) break;
      return LineFrame{WallTime(Duration(get<std::int64_t>(payload, 0))),
                       static_cast<LineStream>(stream), whole == 1,
                       std::string(payload.substr(kLineHead))};
    }
    case Kind::kCaughtUp:
      if (size == 0) return CaughtUpFrame{};
      break;
    case Kind::kStarted:
      if (size == 1 && static_cast<unsigned char>(payload[0]) <= 1) {
        return StartedFrame{payload[0] == 1};
      }
      break;
    case Kind::kEnd:
      if (size < 8 || size > 8 + kLongestText) break;
      return EndFrame{get<std::int32_t>(payload, 0), get<std::int32_t>(payload, 4),
                      std::string(payload.substr(8))};
    case Kind::kRefused: {
      if (size < 1 || size > 1 + kLongestText) break;
      const auto code = get<std::uint8_t>(payload, 0);
      if (code > static_cast<std::uint8_t>(ErrorCode::kInternal)) break;
      return RefusedFrame{{static_cast<ErrorCode>(code), std::string(payload.substr(1))}};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string to_bytes(const Frame& frame) {
  return std::visit([](const auto& one) { return write(one); }, frame);
}

void FrameReader::add(std::string_view piece) {
  bytes_.erase(0, std::exchange(taken_, 0));
  bytes_ += piece;
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::string_view left = std::string_view(bytes_).substr(taken_);
  if (left.size() < kHead) return std::optional<Frame>();
  const auto length = get<std::uint32_t>(left, 1);
  if (length > kMaxFrame) {
    return err(ErrorCode::kDataLoss, "a frame of {} bytes; {} are the most", length, kMaxFrame);
  }
  if (left.size() < kHead + length) return std::optional<Frame>();
  auto frame = read(static_cast<Kind>(left[0]), left.substr(kHead, length));
  if (!frame) {
    return err(ErrorCode::kDataLoss, "a frame that is not known: kind {}, {} bytes",
               static_cast<unsigned char>(left[0]), length);
  }
  taken_ += kHead + length;
  return frame;
}

bool send_frames(int socket, std::string_view frames) {
  while (!frames.empty()) {
    const ssize_t sent = ::send(socket, frames.data(), frames.size(), MSG_NOSIGNAL);
    if (sent > 0) frames.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno == EAGAIN) {
      pollfd room{socket, POLLOUT, 0};
      (void)::poll(&room, 1, -1);
    } else if (sent < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace divvy::sys
