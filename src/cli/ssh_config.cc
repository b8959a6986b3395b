#include "cli/ssh_config.h"

#include <algorithm>

namespace divvy::cli {
namespace {

// ssh expands % in them.
Result<std::string> path_value(const std::filesystem::path& path) {
  std::string value = "\"";
  for (const char c : path.string()) {
    if (c == '"' || c == '\n' || c == '\\') {
      return err(
          ErrorCode::kInvalidArgument,
          "the configuration of ssh cannot hold the path {}; set DIVVY_CONFIG to another one",
          path.string());
    }
    value += c;
    if (c == '%') value += c;
  }
  return value + "\"";
}

std::string doubled_percent(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '%') result += c;
  }
  return result;
}

}  // namespace

std::string quote_for_shell(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

bool is_plain_user(const std::string& name) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= 256 && name.front() != '-' &&
         std::ranges::all_of(name, is_fine);
}

Result<SshOptions> ssh_options(const SshKeys& keys, const SshHost& host) {
  DIVVY_TRY(identity, path_value(keys.identity()));
  DIVVY_TRY(known_hosts, path_value(keys.known_hosts()));
  std::string command;
  for (const std::string& word : host.command) {
    if (word.find('\n') != std::string::npos) {
      return err(ErrorCode::kInvalidArgument, "the configuration of ssh cannot hold {}", word);
    }
    command += doubled_percent(quote_for_shell(word)) + " ";
  }
  command += host.appends_host ? "--user '%r' -- '%n'" : "--user '%r'";
  SshOptions options{{"ProxyCommand", command},
                     {"IdentityFile", identity},
                     {"IdentitiesOnly", "yes"},
                     {"UserKnownHostsFile", known_hosts},
                     {"GlobalKnownHostsFile", "/dev/null"},
                     {"StrictHostKeyChecking", "yes"},
                     {"HostKeyAlgorithms", "ssh-ed25519"},
                     {"UpdateHostKeys", "no"},
                     {"CheckHostIP", "no"},
                     // How long a lost connection is waited for is the channel's to say.
                     {"ServerAliveInterval", "0"}};
  if (!host.alias.empty()) options.emplace_back("HostKeyAlias", host.alias);
  if (!host.user.empty()) options.emplace_back("User", host.user);
  return options;
}

std::string ssh_block(const std::string& pattern, const SshOptions& options) {
  std::string text = "Host " + pattern + "\n";
  for (const auto& [name, value] : options) text += fmt::format("  {} {}\n", name, value);
  return text;
}

}  // namespace divvy::cli
