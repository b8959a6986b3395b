// A connection into a member, through the daemon: frames of sys/frames.h, joined with descriptors
// of this process. Runs on the main thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/member_place.h"
#include "net/http.h"
#include "sys/frames.h"

namespace divvy::cli {

struct Session;
class SignalPipe;

class MemberStream {
 public:
  // `request` is the body of POST /v1/jobs/{id}/stream, without the rank. What went wrong was said;
  // the error is the exit status.
  [[nodiscard]] static tl::expected<MemberStream, int> open(const Session& session,
                                                            const MemberPlace& place,
                                                            boost::json::object request);

  struct Ends {
    int input = -1;  // none: the other side reads the end at once
    int output = -1;
    int error = -1;
  };
  struct Rules {
    Ends ends;
    // Once it has started; may take the input away.
    std::function<Status(bool takes_input, Ends&)> on_start = {};
    const SignalPipe* signals = nullptr;
    // What is to be done about a signal: a frame to send, or nothing, and it goes on with both.
    std::function<std::optional<sys::Frame>(int signal)> on_signal = {};
    bool signals_stop = false;  // instead of on_signal
  };
  // Until it has ended, or (nothing) until a signal came that stops it.
  [[nodiscard]] Result<std::optional<sys::EndFrame>> run(Rules rules);
  // The error of run() is about what was to be started, not about the connection.
  [[nodiscard]] bool was_refused() const { return refused_; }

 private:
  explicit MemberStream(std::unique_ptr<net::HttpTunnel> tunnel) : tunnel_(std::move(tunnel)) {}
  // What came from the other side; nothing: go on.
  [[nodiscard]] Result<std::optional<sys::EndFrame>> receive(Rules& rules);
  [[nodiscard]] Status handle(const sys::Frame& frame, Rules& rules);
  void read_input(Ends& ends);
  [[nodiscard]] Status send();

  std::unique_ptr<net::HttpTunnel> tunnel_;
  sys::FrameReader frames_;
  std::string out_;  // not sent yet
  bool started_ = false;
  bool refused_ = false;
};

}  // namespace divvy::cli
