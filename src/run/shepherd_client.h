// A connection to a member's shepherd: what exec, attach and cp do on the machine of the member.
// For the daemon, on behalf of somebody whom it knows, and for commands of the member's own user or
// root. One thread at a time for each visit; only what says so waits.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "run/member_folder.h"
#include "run/shepherd_messages.h"

namespace divvy::run {

class ShepherdClient {
 public:
  // kUnavailable: nobody answers; the member has probably ended.
  [[nodiscard]] static Result<ShepherdClient> begin(const MemberFolder& folder);
  // By its path, for users of root's daemon, who may pass through the folder but not look into it.
  [[nodiscard]] static Result<ShepherdClient> begin(const std::filesystem::path& folder);

  // `streams`: standard input, output and error, which stay the caller's. Waits for the start. An
  // error is a refusal, or a command that could not be executed (kNotFound).
  [[nodiscard]] Status exec(const ExecRequest& request, const std::vector<int>& streams);
  // The same with a terminal. The descriptor is its other side: what is read there is output, what
  // is written is typed, and TIOCSWINSZ changes its size.
  [[nodiscard]] Result<UniqueFd> exec_in_terminal(ExecRequest request, TerminalSize size);
  [[nodiscard]] Status copy(const CopyRequest& request, const std::vector<int>& streams);

  struct Attached {
    UniqueFd output;
    UniqueFd error;
    std::optional<UniqueFd> input;  // where the member keeps its input
  };
  [[nodiscard]] Result<Attached> attach();
  [[nodiscard]] Status close_input();
  [[nodiscard]] Status signal(int number);

  // Readable when there may be an end to tell, or the shepherd is gone.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // How it ended; nothing yet when it has not within this time. kUnavailable: the shepherd is gone,
  // and so is everything that it had started.
  [[nodiscard]] Result<std::optional<ShepherdAnswer>> ended(std::chrono::milliseconds most);

 private:
  explicit ShepherdClient(UniqueFd socket) : socket_(std::move(socket)) {}
  struct Heard {
    ShepherdAnswer answer;
    std::vector<UniqueFd> fds;
  };
  [[nodiscard]] Result<Heard> ask(const ShepherdRequest& request, const std::vector<int>& fds = {});
  [[nodiscard]] Result<Heard> started(const ShepherdRequest& request, const std::vector<int>& fds);

  UniqueFd socket_;
  std::optional<ShepherdAnswer> end_;  // came before somebody asked for it
};

// One request that is answered with success or a refusal, over a connection of its own.
[[nodiscard]] Status ask_shepherd(const MemberFolder& folder, const ShepherdRequest& request,
                                  std::chrono::milliseconds most);

}  // namespace divvy::run
