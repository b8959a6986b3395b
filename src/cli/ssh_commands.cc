// ssh into jobs: ssh, ssh-config, ssh-proxy.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/session.h"
#include "cli/ssh_config.h"
#include "cli/ssh_keys.h"
#include "cli/ssh_visit.h"
#include "sys/durable_file.h"
#include "sys/exec_pointers.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "divvy-";
constexpr const char* kEveryJob = "divvy-*";
constexpr std::size_t kLongestConfig = std::size_t{4} << 20;

// `divvy ssh-proxy` as whoever connects later has to call it, for the daemon that was chosen now.
Result<std::vector<std::string>> proxy_command(const Session& session) {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  if (code) return err(ErrorCode::kInternal, "where this program is: {}", code.message());
  std::vector<std::string> words{self.string()};
  if (session.choice.context) words.insert(words.end(), {"--context", *session.choice.context});
  if (session.choice.server) words.insert(words.end(), {"--server", *session.choice.server});
  words.emplace_back("ssh-proxy");
  return words;
}

// How ssh gets into one job. The error is an exit status, and what went wrong was said.
tl::expected<SshHost, int> host_for(const Session& session, const std::string& job,
                                    std::uint32_t rank) {
  const auto place = find_member(session, job, rank);
  if (!place) return tl::unexpected(place.error());
  const auto user = user_in_member(session, *place);
  if (!user) return tl::unexpected(user.error());
  auto command = proxy_command(session);
  if (!command) return tl::unexpected(session.fail(command.error()));
  SshHost host;
  host.pattern = ssh_host_of(job, rank);
  host.alias = host.pattern;
  host.user = user->value_or("");
  host.command = *std::move(command);
  host.command.insert(host.command.end(), {job, "--host", host.pattern});
  if (rank > 0) host.command.insert(host.command.end(), {"--rank", std::to_string(rank)});
  return host;
}

struct SshArguments {
  std::string job;
  std::vector<std::string> command;
  std::uint32_t rank = 0;
  bool terminal = false;
};

Result<int> run_ssh(const Session& session, const SshArguments& arguments) {
  const auto keys = SshKeys::open(session.terminal.environment);
  if (!keys) return session.fail(keys.error());
  const auto host = host_for(session, arguments.job, arguments.rank);
  if (!host) return host.error();
  const auto options = ssh_options(*keys, *host);
  if (!options) return session.fail(options.error());
  std::vector<std::string> words{"ssh"};
  if (arguments.terminal) words.emplace_back("-t");
  for (const auto& [name, value] : *options) {
    words.insert(words.end(), {"-o", fmt::format("{}={}", name, value)});
  }
  words.insert(words.end(), {"--", host->pattern});
  words.insert(words.end(), arguments.command.begin(), arguments.command.end());
  session.out.flush();
  ::execvp("ssh", sys::exec_pointers(words).data());
  return session.fail(Error{ErrorCode::kNotFound,
                            fmt::format("ssh is needed on this machine: {}; install openssh-client",
                                        std::strerror(errno))});
}

struct ConfigArguments {
  std::vector<std::string> jobs;
  std::string user;
  std::uint32_t rank = 0;
  bool write = false;
};

// As which name somebody on another machine is known there; empty: not known, or the same as here.
std::string usual_user(const Session& session) {
  const auto daemon = session.daemon();
  if (!daemon || !daemon->is_remote()) return "";
  const auto reply = daemon->ask("GET", "/v1/whoami");
  if (!reply || !reply->ok()) return "";
  const auto answer = Answer::parse(reply->body);
  if (!answer) return "";
  std::string name = (*answer)["name"].text();
  return is_plain_user(name) ? name : "";
}

// Above what is there: ssh takes the first value that it finds.
Status include_from(const fs::path& users, const fs::path& ours) {
  std::error_code code;
  const fs::path folder = users.parent_path();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return err(ErrorCode::kIo, "{}: {}", folder.string(), std::strerror(errno));
  }
  // It may be a link to where somebody keeps such files.
  const fs::path file = fs::exists(users, code) ? fs::canonical(users, code) : users;
  DIVVY_TRY(opened, sys::open_folder(fs::absolute(file).parent_path().string()));
  auto before = sys::read_file(opened.get(), file.filename().string(), kLongestConfig);
  if (!before && before.error().code != ErrorCode::kNotFound) return err(before.error());
  const std::string line = fmt::format("Include \"{}\"", ours.string());
  if (before) {
    for (const std::string_view one : split(*before, '\n')) {
      if (trim(one) == line) return {};
    }
  }
  return sys::write_durably(opened.get(), file.filename().string(),
                            line + "\n" + (before ? "\n" + *before : ""));
}

int write_config(const Session& session, const SshKeys& keys, const std::string& text) {
  const auto home = session.terminal.environment("HOME");
  if (!home || home->empty()) {
    return session.fail(Error{ErrorCode::kNotFound, "there is no HOME to have .ssh in; set HOME"});
  }
  const auto folder = sys::open_folder(keys.folder().string());
  if (!folder) return session.fail(folder.error());
  if (const Status written = sys::write_durably(folder->get(), "config", text); !written) {
    return session.fail(written.error());
  }
  const fs::path ours = keys.folder() / "config";
  const fs::path users = fs::path(*home) / ".ssh/config";
  if (const Status included = include_from(users, ours); !included) {
    return session.fail(included.error());
  }
  session.say(fmt::format("{} is included by {}", ours.string(), users.string()));
  return kExitOk;
}

Result<int> configure(const Session& session, const ConfigArguments& arguments) {
  if (!arguments.user.empty() && !is_plain_user(arguments.user)) {
    return err(ErrorCode::kInvalidArgument, "--user: {} is no name of a user", arguments.user);
  }
  const auto keys = SshKeys::open(session.terminal.environment);
  if (!keys) return session.fail(keys.error());
  std::string text = "# Jobs of Divvy; written by divvy ssh-config\n";
  const auto add = [&](const SshHost& host) -> Status {
    DIVVY_TRY(options, ssh_options(*keys, host));
    text += ssh_block(host.pattern, options);
    return {};
  };
  for (const std::string& job : arguments.jobs) {
    auto host = host_for(session, job, arguments.rank);
    if (!host) return host.error();
    if (!arguments.user.empty()) host->user = arguments.user;
    if (const Status added = add(*host); !added) return session.fail(added.error());
  }
  auto command = proxy_command(session);
  if (!command) return session.fail(command.error());
  const Status added = add({.pattern = kEveryJob,
                            .command = *std::move(command),
                            .appends_host = true,
                            .user = arguments.user.empty() ? usual_user(session) : arguments.user});
  if (!added) return session.fail(added.error());
  return arguments.write ? write_config(session, *keys, text) : session.print(text);
}

struct ProxyArguments {
  std::string job;
  std::string host;
  std::string user;
  std::uint32_t rank = 0;
};

Result<int> proxy(const Session& session, const ProxyArguments& arguments) {
  std::string job = arguments.job;
  if (job.starts_with(kPrefix)) job.erase(0, kPrefix.size());
  const std::string host =
      arguments.host.empty() ? ssh_host_of(job, arguments.rank) : arguments.host;
  const auto keys = SshKeys::open(session.terminal.environment);
  if (!keys) return session.fail(keys.error());
  const auto handover = keys->for_host(host);
  if (!handover) return session.fail(handover.error());
  const auto place = find_member(session, job, arguments.rank);
  if (!place) return place.error();
  return serve_ssh(session, *place, *handover, arguments.user);
}

CLI::App* add_ssh(CommandTree& tree) {
  auto arguments = std::make_shared<SshArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "ssh", "A session of ssh in a job", kSshFooter,
               [arguments](const Session& session) { return run_ssh(session, *arguments); });
  tree.takes_command(*command, arguments->command, 1);
  command->add_option("JOB", arguments->job, "Its number or name")->required();
  command->add_option("--rank", arguments->rank, "In this member (0)")->type_name("NUMBER");
  command->add_flag("-t,--tty", arguments->terminal, "A terminal for a command, too");
  return command;
}

void add_ssh_config(CommandTree& tree) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "ssh-config",
               "Jobs as hosts of ssh, for scp, rsync, git and editors", kSshConfigFooter,
               [arguments](const Session& session) { return configure(session, *arguments); });
  command->add_option("JOB", arguments->jobs, "A block of its own for each of these");
  command->add_option("--rank", arguments->rank, "Those blocks are for this member (0)")
      ->type_name("NUMBER");
  command->add_option("--user", arguments->user, "Who logs in; otherwise as jobs say")
      ->type_name("NAME");
  command->add_flag("--write", arguments->write, "Into a file that ~/.ssh/config includes");
}

}  // namespace

void add_ssh_commands(CommandTree& tree) {
  add_ssh(tree);
  add_ssh_config(tree);
  auto arguments = std::make_shared<ProxyArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "ssh-proxy", "Connects ssh with a job", kSshProxyFooter,
               [arguments](const Session& session) { return proxy(session, *arguments); });
  command->add_option("JOB", arguments->job, "Its number or name, also with divvy- before it")
      ->required();
  command->add_option("--rank", arguments->rank, "To this member (0)")->type_name("NUMBER");
  command->add_option("--host", arguments->host, "How ssh calls it (divvy-JOB)")->type_name("NAME");
  command->add_option("--user", arguments->user, "Who wants to log in")->type_name("NAME");
}

}  // namespace divvy::cli
