// What ssh is told about jobs, as options of its configuration. Pure.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/ssh_keys.h"

namespace divvy::cli {

struct SshHost {
  std::string pattern;               // "divvy-train", or "divvy-*"
  std::vector<std::string> command;  // what connects: divvy ssh-proxy and its arguments
  // ssh appends the host as it was typed; otherwise the job is named in the command.
  bool appends_host = false;
  std::string user = {};   // empty: whoever asks has the same name there, or says another one
  std::string alias = {};  // the name in known_hosts; empty: as it was typed
};

using SshOptions = std::vector<std::pair<std::string, std::string>>;
// kInvalidArgument: a path that no such file can hold.
[[nodiscard]] Result<SshOptions> ssh_options(const SshKeys& keys, const SshHost& host);
[[nodiscard]] std::string ssh_block(const std::string& pattern, const SshOptions& options);

// A word for the shell that reads a ProxyCommand.
[[nodiscard]] std::string quote_for_shell(const std::string& word);
// A user's name that came from a job and means nothing to a shell or to ssh.
[[nodiscard]] bool is_plain_user(const std::string& name);

}  // namespace divvy::cli
