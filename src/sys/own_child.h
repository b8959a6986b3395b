// A process that is this program once more, with other arguments: what the daemon has done for it
// where the driver may not come back. Callable from any thread; the thread that starts a child has
// to live as long as the child is wanted, because the child dies with it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

class OwnChild {
 public:
  struct Options {
    std::vector<std::string> arguments;
    int channel = 3;  // As which descriptor the child finds its end
    // NAME=value, besides the environment of the daemon.
    std::vector<std::string> environment;
  };
  [[nodiscard]] static Result<OwnChild> start(const Options& options);

  OwnChild(OwnChild&& other) noexcept;
  OwnChild& operator=(OwnChild&& other) noexcept;
  // Kills it. Does not wait for its end: one that is stuck in the driver has none.
  ~OwnChild();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // A socket with packets; hung up when the child is gone.
  [[nodiscard]] int channel() const { return channel_.get(); }
  void close_channel() { channel_.reset(); }
  // Becomes readable when it has ended.
  [[nodiscard]] int life() const { return life_.get(); }
  void kill() const;
  // Its exit status, or 128 and the number of the signal that ended it; nothing while it runs.
  [[nodiscard]] std::optional<int> ended();

 private:
  OwnChild() = default;

  pid_t pid_ = -1;
  UniqueFd channel_;
  UniqueFd life_;
  std::optional<int> status_;
};

}  // namespace divvy::sys
