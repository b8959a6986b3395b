// A channel joined with descriptors: a local socket, whose bytes it carries, and the connection to
// the other end, which comes and goes. Whoever owns it polls for what it waits for. One thread.
#pragma once

#include <poll.h>

#include <functional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/channel.h"

namespace divvy::sys {

class ChannelPump {
 public:
  struct Options {
    // The end of what the local socket says is the end of it in both directions.
    bool ends_at_once = false;
    std::size_t window = kChannelWindow;
    // Asked once, before anything is said or heard over the local socket and after it is connected:
    // false is the end. Empty: nobody is asked.
    std::function<bool()> may_begin = {};
  };
  // The local socket; none: the other end is told of the failure that is set, and that is all.
  ChannelPump(UniqueFd local, Options options);

  // From now on over this connection; the one before is closed.
  void carry(UniqueFd connection);
  [[nodiscard]] bool is_carried() const { return static_cast<bool>(connection_); }

  // What to wait for; a descriptor of -1 where there is nothing.
  struct Waits {
    pollfd local;
    pollfd connection;
  };
  [[nodiscard]] Waits waits();
  // What poll() said about them.
  void step(const Waits& happened);
  // Sends what is due without waiting.
  void flush();

  [[nodiscard]] Channel& channel() { return channel_; }
  [[nodiscard]] const Channel& channel() const { return channel_; }
  // Closes the local socket: a broken connection for whoever is there.
  void close_local();

 private:
  [[nodiscard]] bool has_begun();
  void read_connection();
  void write_local();
  void read_local();

  UniqueFd local_;
  const Options options_;
  bool begun_ = false;
  Channel channel_;
  UniqueFd connection_;
};

}  // namespace divvy::sys
