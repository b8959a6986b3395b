// The relay of a member keeps its channels (sys/channel.h), so that they outlive the daemon: the
// connections to its ports, the commands and terminals that were started beside it, what they have
// said and nobody has heard yet. `divvyd --relay FOLDER` is one of these. It runs as the member's
// user from before it reads a byte, is no child of the daemon, and ends when it has had no channel
// for a while. The daemon connects to its socket in the member's folder with a StreamOrder
// (agent/relays.h). One thread, besides those of the streams.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/member_port.h"
#include "agent/orders.h"
#include "agent/streams.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/channel_pump.h"

namespace divvy::agent {

inline constexpr const char* kRelaySocket = "relay";

class Relay {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::filesystem::path folder;
    // The same, open as long as the relay is there: it ends when the folder was removed, with the
    // member and all that could be joined. Below zero: it does not look.
    int folder_fd = -1;
    std::chrono::milliseconds look = std::chrono::seconds(5);  // while nobody carries a channel
    // Where a port of the member is on this machine.
    std::function<Result<std::uint16_t>(std::uint16_t)> port_on_machine;
    // Who may listen there. Empty: our own user, and root, who publishes ports of containers.
    IsOfMember is_of_member = {};
    // Without any channel it ends after this time.
    std::chrono::milliseconds idle = std::chrono::seconds(5);
    std::size_t most = 1024;  // channels at once
    std::function<Time()> now = std::chrono::steady_clock::now;
  };
  Relay(UniqueFd listener, Options options);

  // Returns when nobody needs it any more, or the listener was shut down.
  void run();

 private:
  struct Held {
    Held(UniqueFd local, sys::ChannelPump::Options options, std::chrono::milliseconds kept)
        : pump(std::move(local), std::move(options)), keep(kept) {}
    sys::ChannelPump pump;
    // When it was seen that nobody carries it; for longer than `keep` and it is closed, with what
    // was started through it.
    std::optional<Time> lost;
    std::chrono::milliseconds keep{0};
    sys::ChannelPump::Waits waits{};
  };

  // Memory that is not there is the end of one channel.
  template <typename Step>
  static void guard(Held& held, const Step& step);
  void accept_all();
  void greet(UniqueFd connection);
  [[nodiscard]] Status open(const StreamOrder& order);
  [[nodiscard]] Result<PortConnection> connect_to(std::uint16_t port) const;
  [[nodiscard]] Result<Held*> find(const StreamOrder& order);
  void remove_ended(Time now);
  [[nodiscard]] int time_left(Time now) const;
  [[nodiscard]] bool folder_is_gone() const;

  UniqueFd listener_;
  const Options options_;
  Streams streams_;
  std::map<std::string, Held> channels_;
  // Those that nobody came back to in time, and how long that was.
  std::map<std::string, std::chrono::milliseconds> expired_;
  // To accept and hang up where there is no other descriptor left.
  UniqueFd spare_;
  Time last_used_;
};

// What a `divvyd --relay` does: like run::run_shepherd(). The exit status.
[[nodiscard]] int run_relay(const std::filesystem::path& folder);

}  // namespace divvy::agent
