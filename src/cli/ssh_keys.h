// The keys of ssh into jobs. All are made here, by ssh-keygen: one with which this user logs in,
// and one for each name that a job has here, by which ssh knows that it is that job whom it found.
// They lie in "ssh" beside the file of contexts, readable for nobody else, and may be removed at
// any time: the next connection makes new ones. Runs on the main thread of any number of processes.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/server_contexts.h"

namespace divvy::cli {

// "divvy-train": how ssh calls a job, and how its key is called. `job` is a name or a number.
[[nodiscard]] std::string ssh_host_of(const std::string& job, std::uint32_t rank = 0);

class SshKeys {
 public:
  // Makes the folder and the key of the login where there are none.
  [[nodiscard]] static Result<SshKeys> open(const Environment& environment);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path identity() const { return folder_ / "id_ed25519"; }
  [[nodiscard]] std::filesystem::path known_hosts() const { return folder_ / "known_hosts"; }

  // What the sshd of this host is handed: its own key, and the public one of the login. The key is
  // made where there is none, and ssh finds it in known_hosts from then on.
  struct Handover {
    std::string login;
    std::string host;
  };
  [[nodiscard]] Result<Handover> for_host(const std::string& host) const;

 private:
  SshKeys(std::filesystem::path folder, UniqueFd fd)
      : folder_(std::move(folder)), fd_(std::move(fd)) {}
  [[nodiscard]] Status make_key(const std::string& name) const;
  [[nodiscard]] Status write_known_hosts() const;
  [[nodiscard]] Result<UniqueFd> lock() const;

  std::filesystem::path folder_;
  UniqueFd fd_;
};

}  // namespace divvy::cli
