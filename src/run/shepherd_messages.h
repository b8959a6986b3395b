// Requests to a shepherd and its answers: one JSON object to a packet. Any bytes are safe to
// pass. Pure functions, callable from any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace divvy::run {

// Longer ones are refused, in both directions.
inline constexpr std::size_t kMaxShepherdMessage = std::size_t{64} << 10;

struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

struct StopRequest {
  std::chrono::seconds grace{0};
  friend bool operator==(const StopRequest&, const StopRequest&) = default;
};

// Another command beside the member's, in the same place. Comes with three descriptors, its
// standard input, output and error; with a terminal it comes with none, and the answer brings the
// terminal.
struct ExecRequest {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // beside the member's
  std::string working_directory;                   // empty: the member's
  std::optional<TerminalSize> terminal;
  friend bool operator==(const ExecRequest&, const ExecRequest&) = default;
};

// A tar stream out of the member, or into a folder of it. Comes with three descriptors.
struct CopyRequest {
  std::string path;
  bool out = true;
  friend bool operator==(const CopyRequest&, const CopyRequest&) = default;
};

// The answer brings where the member's output and error can be read from now on and, where it keeps
// its input, where that can be written to.
struct AttachRequest {
  friend bool operator==(const AttachRequest&, const AttachRequest&) = default;
};

// From whoever attached: the member's input ends when the last who writes to it is gone.
struct CloseInputRequest {
  friend bool operator==(const CloseInputRequest&, const CloseInputRequest&) = default;
};

// To the command that was started through this connection.
struct SignalRequest {
  int signal = 0;
  friend bool operator==(const SignalRequest&, const SignalRequest&) = default;
};

using ShepherdRequest = std::variant<StopRequest, ExecRequest, CopyRequest, AttachRequest,
                                     CloseInputRequest, SignalRequest>;
[[nodiscard]] std::string to_message(const ShepherdRequest& request);
[[nodiscard]] Result<ShepherdRequest> parse_shepherd_request(std::string_view text);

struct ShepherdAnswer {
  enum class Kind {
    kDone,     // It is as wished.
    kStarted,  // exec, copy, attach
    kEnded,    // what was started through this connection, or the member for whoever attached
    kRefused,
  };
  Kind kind = Kind::kDone;
  pid_t pid = 0;
  int exit_code = 0;
  int signal = 0;
  std::string reason;
  friend bool operator==(const ShepherdAnswer&, const ShepherdAnswer&) = default;
};
[[nodiscard]] std::string to_message(const ShepherdAnswer& answer);
[[nodiscard]] Result<ShepherdAnswer> parse_shepherd_answer(std::string_view text);

}  // namespace divvy::run
