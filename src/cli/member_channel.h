// The client's end of a channel into a member (sys/channel.h): opened through the daemon, and
// carried by one connection after the other for as long as there is something to say, also over
// restarts of the daemon and of the network.
#pragma once

#include <boost/json/fwd.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/daemon.h"
#include "cli/member_place.h"

namespace divvy::cli {

// One that nobody can guess.
[[nodiscard]] std::string new_channel_name();

// `request` is the body of POST /v1/jobs/{id}/channels, without rank and name. A reply that is no
// success is the refusal. May be called again when nobody knows whether it worked.
[[nodiscard]] Result<Reply> open_channel(const Daemon& daemon, const MemberPlace& place,
                                         const std::string& name, boost::json::object request);
// How long the other end keeps a channel that nobody carries, as the answer to that says.
[[nodiscard]] std::chrono::milliseconds time_kept(const Reply& opened);
// Whether the daemon was away or too busy, so that the same may work later.
[[nodiscard]] bool may_work_later(const Result<Reply>& answer);

struct Carrying {
  const Daemon& daemon;
  MemberPlace place;
  std::string name;
  // Readable: enough; whatever was started through the channel is hung up. It stays the caller's.
  int stop = -1;
  // Without any connection for so long it is given up, as the other end does.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
};
// Joins the local socket with a channel that was opened, until both have ended. An error: what was
// said did not all arrive, and why; the local socket was closed as a broken one is. On any thread.
[[nodiscard]] Status carry_channel(const Carrying& carrying, UniqueFd local);

// The same on a thread of its own, with a socket for whoever made it.
class MemberChannel {
 public:
  [[nodiscard]] static Result<std::unique_ptr<MemberChannel>> begin(Daemon daemon,
                                                                    const MemberPlace& place,
                                                                    std::string name);
  // Hangs up.
  ~MemberChannel();
  MemberChannel(const MemberChannel&) = delete;
  MemberChannel& operator=(const MemberChannel&) = delete;

  [[nodiscard]] int fd() const { return ours_.get(); }
  // After the end was read there: whether that was all.
  [[nodiscard]] Status result();

 private:
  explicit MemberChannel(Daemon daemon) : daemon_(std::move(daemon)) {}

  const Daemon daemon_;
  UniqueFd ours_;
  UniqueFd stop_;
  Status result_;
  std::thread thread_;
};

}  // namespace divvy::cli
