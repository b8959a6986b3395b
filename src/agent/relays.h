// The relays of this machine's members (agent/relay.h), as the daemon uses them: found by the
// sockets in the members' folders, and started where there is none. A relay is its tenant's: it may
// say anything, or nothing, and nobody waits for it but who asked for one of its channels. Callable
// from any thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/streams.h"

namespace divvy::agent {

class Relays {
 public:
  // `command` starts one for the folder that follows.
  explicit Relays(Streams::FolderOf folder_of,
                  std::vector<std::string> command = {"/proc/self/exe", "--relay"})
      : folder_of_(std::move(folder_of)), command_(std::move(command)) {}

  // Opens the channel that the order names, or joins it: then the socket is its connection. What is
  // there under this name already is not opened twice. kNotFound: there is no such channel to join.
  [[nodiscard]] Result<UniqueFd> open(const StreamOrder& order);

 private:
  [[nodiscard]] Status start(const StreamOrder& order);

  const Streams::FolderOf folder_of_;
  const std::vector<std::string> command_;
  std::mutex mutex_;
  std::condition_variable started_;
  std::set<model::MemberKey> starting_;  // one at a time for each member
};

}  // namespace divvy::agent
