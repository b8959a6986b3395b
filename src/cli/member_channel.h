// The client's end of a channel into a member (sys/channel.h): opened through the daemon, and
// carried by one connection after the other for as long as there is something to say, also over
// restarts of the daemon and of the network.
#pragma once

#include <atomic>
#include <boost/json/fwd.hpp>
#include <chrono>
#include <functional>
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
// The same of a cluster: the channel is the connection, and has its end with it.
[[nodiscard]] Result<Daemon::Upgraded> open_in_pod(const Daemon& daemon, const MemberPlace& place,
                                                   const std::string& name,
                                                   boost::json::object request);
// The same for as long as the daemon is away or too busy, but not longer than `patience`. It may
// have been opened by a daemon that died before it said so; the next one opens nothing twice.
// Nothing: `stop` became readable.
[[nodiscard]] Result<std::optional<Reply>> open_channel_patiently(
    const Daemon& daemon, const MemberPlace& place, const std::string& name,
    const boost::json::object& request, std::chrono::milliseconds patience, int stop = -1);
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
  // Told, on the carrying thread, that there has been no connection for longer than `quiet`; and
  // then that there is one again.
  std::function<void(bool lost)> on_loss = {};
  std::chrono::milliseconds quiet = std::chrono::seconds(2);
};
// Joins the local socket with a channel that was opened, until both have ended. An error: what was
// said did not all arrive, and why; the local socket was closed as a broken one is. On any thread.
[[nodiscard]] Status carry_channel(const Carrying& carrying, UniqueFd local);

// The same on a thread of its own, with a socket for whoever made it.
class MemberChannel {
 public:
  [[nodiscard]] static Result<std::unique_ptr<MemberChannel>> begin(
      Daemon daemon, const MemberPlace& place, std::string name,
      std::chrono::milliseconds patience = std::chrono::minutes(10));
  // On a socket that is connected with the member already, which no other one follows.
  [[nodiscard]] static Result<std::unique_ptr<MemberChannel>> over(UniqueFd socket);
  // Hangs up.
  ~MemberChannel();
  MemberChannel(const MemberChannel&) = delete;
  MemberChannel& operator=(const MemberChannel&) = delete;

  [[nodiscard]] int fd() const { return ours_.get(); }
  // Readable when is_lost() may be another than before; then it is to be read.
  [[nodiscard]] int news() const { return news_.get(); }
  // There has been no connection for a while, and it goes on trying.
  [[nodiscard]] bool is_lost() const { return lost_; }
  // After the end was read there: whether that was all.
  [[nodiscard]] Status result();

 private:
  explicit MemberChannel(Daemon daemon) : daemon_(std::move(daemon)) {}

  const Daemon daemon_;
  UniqueFd ours_;
  UniqueFd stop_;
  UniqueFd news_;
  std::atomic<bool> lost_{false};
  Status result_;
  std::thread thread_;
};

}  // namespace divvy::cli
