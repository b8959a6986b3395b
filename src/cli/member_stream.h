// What exec, attach, cp and ssh say to a member: frames of sys/frames.h, joined with descriptors of
// this process. They go through a channel, so that the daemon may be replaced and the network be
// lost for a while. Runs on the main thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/member_channel.h"
#include "cli/member_place.h"
#include "sys/frames.h"

namespace divvy::cli {

struct Session;
class SignalPipe;

class MemberStream {
 public:
  // `request` is the body of POST /v1/jobs/{id}/channels, without rank and name. What went wrong
  // was said; the error is the exit status. `stop`: readable, it is enough; it stays the caller's.
  [[nodiscard]] static tl::expected<MemberStream, int> open(const Session& session,
                                                            const MemberPlace& place,
                                                            const boost::json::object& request,
                                                            int stop = -1);

  struct Ends {
    int input = -1;  // none: the other side reads the end at once
    int output = -1;
    int error = -1;
  };
  struct Rules {
    Ends ends;
    std::string first_input = {};  // before what is read
    // What it writes to standard output, instead of the end; an error is the end of run().
    std::function<Status(const std::string& bytes)> on_output = {};
    // Once it has started; may take the input away.
    std::function<Status(bool takes_input, Ends&)> on_start = {};
    const SignalPipe* signals = nullptr;
    // What is to be done about a signal: a frame to send, or nothing, and it goes on with both.
    std::function<std::optional<sys::Frame>(int signal)> on_signal = {};
    bool signals_stop = false;  // instead of on_signal
    // There has been no connection for a while, or there is one again. From the first to the second
    // a signal, or Ctrl-C where that is none, gives up: run() is kCancelled.
    std::function<void(bool lost)> on_loss = {};
  };
  // Until it has ended, or (nothing) until a signal came that stops it.
  [[nodiscard]] Result<std::optional<sys::EndFrame>> run(Rules rules);
  // The error of run() is about what was to be started, not about the connection.
  [[nodiscard]] bool was_refused() const { return refused_; }

 private:
  explicit MemberStream(std::unique_ptr<MemberChannel> channel) : channel_(std::move(channel)) {}
  // What came from the other side; nothing: go on.
  [[nodiscard]] Result<std::optional<sys::EndFrame>> receive(Rules& rules);
  [[nodiscard]] Status handle(const sys::Frame& frame, Rules& rules);
  // False: it said that it is enough.
  [[nodiscard]] bool read_input(Rules& rules);
  void hear_news(const Rules& rules);
  void send();

  std::unique_ptr<MemberChannel> channel_;
  sys::FrameReader frames_;
  std::string out_;  // not sent yet
  bool started_ = false;
  bool refused_ = false;
  bool lost_ = false;  // as it was told
};

}  // namespace divvy::cli
