// What goes over a stream to a member and back: frames of one byte of kind, four bytes of length
// (little endian) and so many bytes. Both ends read what another process wrote, so any bytes are
// safe to pass. Pure but for send_frames(); callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::sys {

// Of what follows the head. Longer ones are refused.
inline constexpr std::size_t kMaxFrame = std::size_t{64} << 10;

// --- Towards the member ---

struct InputFrame {
  std::string bytes;
  friend bool operator==(const InputFrame&, const InputFrame&) = default;
};
// No more input. Of output that is followed: what is there is told, and then it ends.
struct InputEndFrame {
  friend bool operator==(const InputEndFrame&, const InputEndFrame&) = default;
};
struct SignalFrame {
  std::int32_t signal = 0;
  friend bool operator==(const SignalFrame&, const SignalFrame&) = default;
};
struct WindowFrame {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  friend bool operator==(const WindowFrame&, const WindowFrame&) = default;
};

// --- From the member ---

struct OutputFrame {
  std::string bytes;
  friend bool operator==(const OutputFrame&, const OutputFrame&) = default;
};
struct ErrorFrame {
  std::string bytes;
  friend bool operator==(const ErrorFrame&, const ErrorFrame&) = default;
};
enum class LineStream : std::uint8_t {
  kOutput,
  kError,
  kDivvy,  // what is said about the member, not by it
};
struct LineFrame {
  WallTime at = {};  // of its beginning
  LineStream stream = LineStream::kOutput;
  bool whole = true;  // false: the next frame is the rest of this line
  std::string text;   // without the line end
  friend bool operator==(const LineFrame&, const LineFrame&) = default;
};
// There is no more at the moment.
struct CaughtUpFrame {
  friend bool operator==(const CaughtUpFrame&, const CaughtUpFrame&) = default;
};
// The first one of whatever was started: whether input reaches it.
struct StartedFrame {
  bool takes_input = false;
  friend bool operator==(const StartedFrame&, const StartedFrame&) = default;
};
struct EndFrame {
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;  // 0: it was not ended by one
  std::string reason;
  friend bool operator==(const EndFrame&, const EndFrame&) = default;
};
// It was not started, or nobody knows how it ended.
struct RefusedFrame {
  Error error;
  friend bool operator==(const RefusedFrame&, const RefusedFrame&) = default;
};

using Frame =
    std::variant<InputFrame, InputEndFrame, SignalFrame, WindowFrame, OutputFrame, ErrorFrame,
                 LineFrame, CaughtUpFrame, StartedFrame, EndFrame, RefusedFrame>;

// Bytes and the text of a line that are too long for one frame are split over several; a reason or
// a message is cut.
[[nodiscard]] std::string to_bytes(const Frame& frame);

// Puts frames together from the pieces in which they arrive.
class FrameReader {
 public:
  void add(std::string_view piece);
  // Nothing: the next one is not complete. kDataLoss: this is no stream of frames, and nothing
  // after it can be understood.
  [[nodiscard]] Result<std::optional<Frame>> next();

 private:
  std::string bytes_;
  std::size_t taken_ = 0;  // of them
};

// Waits until the socket has taken them all; false: the other side is gone.
[[nodiscard]] bool send_frames(int socket, std::string_view frames);

}  // namespace divvy::sys
