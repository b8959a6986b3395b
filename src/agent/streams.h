// Streams to members of this machine: their output, commands beside them, their own input and
// output, copies. The daemon's are of output; the others are those of a relay. Each has a thread of
// its own. Callable from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "agent/orders.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

class Streams {
 public:
  using FolderOf = std::function<std::filesystem::path(const model::MemberKey&)>;
  // At most so many at once; those beyond are refused.
  explicit Streams(FolderOf folder_of, std::size_t most = 512)
      : folder_of_(std::move(folder_of)), most_(most) {}
  // Ends them all.
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // A socket with frames (sys/frames.h). Returns when the member is known to be there; a command
  // that cannot be started is told in the stream.
  [[nodiscard]] Result<UniqueFd> open(const StreamOrder& order);

 private:
  // What a stream does on its thread, with its socket, and a descriptor whose end also ends it.
  struct Work {
    std::function<void(int peer)> run;
    int shepherd = -1;
  };
  struct Session {
    std::thread thread;
    UniqueFd peer;
    int shepherd = -1;
    bool done = false;
  };

  [[nodiscard]] Result<Work> prepare(const StreamOrder& order) const;
  [[nodiscard]] Result<Work> prepare_visit(const StreamOrder& order) const;
  void remove_finished();

  const FolderOf folder_of_;
  const std::size_t most_;
  std::mutex mutex_;  // of what follows
  bool stopping_ = false;
  std::list<Session> sessions_;
};

}  // namespace divvy::agent
