// The folders of a daemon and the lock that makes it the only one in them, and how it leaves the
// terminal. Called by main before any thread exists.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

// Makes both folders. The run folder can be entered by others only where root keeps it.
[[nodiscard]] Status make_folders(const std::filesystem::path& run,
                                  const std::filesystem::path& state);

// Held as long as the descriptor is open, also against a daemon that was killed. kAlreadyExists
// when another daemon has it. Two locks, because two daemons may be told to use one state folder
// from two run folders, and would then write one ledger.
[[nodiscard]] Result<UniqueFd> lock_run_folder(const std::filesystem::path& run);
[[nodiscard]] Result<UniqueFd> lock_state_folder(const std::filesystem::path& state);

// Who may connect to a socket: its rights, and the group it belongs to (empty: ours).
[[nodiscard]] Status give_socket(const std::filesystem::path& socket, mode_t mode,
                                 const std::string& group);

// Goes on in a child process without a terminal, with its log in `log_file`. The parent stays until
// tell() and exits with the status told there, after it has written the message.
class Background {
 public:
  [[nodiscard]] static Result<Background> enter(const std::filesystem::path& log_file);
  // Stays in the foreground: tell() writes errors to standard error and that is all.
  Background() = default;

  // How it went, and with which status the parent is to exit.
  void tell(const Status& status, int exit_status);

 private:
  UniqueFd parent_;
};

// One heap for all threads: there is a thread per connection, what one takes another gives back,
// and with several heaps the memory of the daemon kept growing while tenants came and went.
void share_one_heap();

// As many descriptors as the system lets us have: every process of a tenant costs three.
void raise_descriptor_limit();

}  // namespace divvy::sys
