// Commands that go into a job that runs: exec, attach, cp, port-forward.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_reference.h"
#include "cli/member_visit.h"
#include "cli/port_forward.h"
#include "cli/session.h"

namespace divvy::cli {

tl::expected<MemberPlace, int> find_member(const Session& session, const std::string& job,
                                           std::uint32_t rank) {
  const auto id = find_job(session, job, JobMeant::kNewest);
  if (!id) return tl::unexpected(id.error());
  const Asked members = ask(session, "GET", fmt::format("/v1/jobs/{}/members", *id));
  if (!members) return tl::unexpected(members.status());
  const auto items = members.answer()["items"].items();
  for (const Answer& member : items) {
    if (member["rank"].number() != rank) continue;
    if (member["phase"].text() != "living") break;
    return MemberPlace{.job = *id, .rank = rank};
  }
  session.say(items.empty()
                  ? fmt::format("job {} does not run; `divvy get {}` says why", *id, *id)
                  : fmt::format("job {} has no member {} that runs; `divvy get {}` says why", *id,
                                rank, *id));
  return tl::unexpected(kExitNotFound);
}

namespace {

struct ExecArguments {
  std::string job;
  std::vector<std::string> command;
  std::vector<std::string> environment;
  std::string folder;
  std::uint32_t rank = 0;
  bool terminal = false;
  bool input = false;
};

Result<int> exec(const Session& session, const ExecArguments& arguments) {
  ExecWish wish{.command = arguments.command,
                .environment = arguments.environment,
                .folder = arguments.folder,
                .terminal = arguments.terminal};
  if (wish.command.empty()) {
    return err(ErrorCode::kInvalidArgument, "no command was given: divvy exec {} -- nvidia-smi",
               arguments.job);
  }
  bool has_terminal_kind = false;
  for (const std::string& pair : wish.environment) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return err(ErrorCode::kInvalidArgument, "--env wants NAME=VALUE");
    }
    has_terminal_kind = has_terminal_kind || pair.starts_with("TERM=");
  }
  if (arguments.terminal && ::isatty(STDIN_FILENO) == 0) {
    return err(ErrorCode::kInvalidArgument, "standard input is no terminal; leave out -t");
  }
  const auto place = find_member(session, arguments.job, arguments.rank);
  if (!place) return place.error();
  if (arguments.terminal && !has_terminal_kind) {
    const auto kind = session.terminal.environment("TERM");
    if (kind) wish.environment.push_back("TERM=" + *kind);
  }
  return exec_in_member(session, *place, wish);
}

void add_exec(CommandTree& tree) {
  auto arguments = std::make_shared<ExecArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "exec", "Run another command beside a job, on its GPUs", kExecFooter,
               [arguments](const Session& session) { return exec(session, *arguments); });
  tree.takes_command(*command, arguments->command, 1);
  command->add_option("JOB", arguments->job, "Its number or name")->required();
  command->add_flag("-t,--tty", arguments->terminal, "On a terminal, for shells and editors");
  command->add_flag("-i,--stdin", arguments->input, "Standard input is always passed on");
  command->add_option("--rank", arguments->rank, "In this member (0)")->type_name("NUMBER");
  add_list(*command, "-e,--env", arguments->environment, "A variable beside the job's own",
           "NAME=VALUE");
  command->add_option("--cwd", arguments->folder, "Where it runs (where the job does)")
      ->type_name("FOLDER");
}

struct AttachArguments {
  std::string job;
  std::uint32_t rank = 0;
  bool no_input = false;
};

void add_attach(CommandTree& tree) {
  auto arguments = std::make_shared<AttachArguments>();
  CLI::App* command = tree.add(heading::kJobs, "attach", "See what a job writes, and type to it",
                               kAttachFooter, [arguments](const Session& session) -> Result<int> {
                                 const auto place =
                                     find_member(session, arguments->job, arguments->rank);
                                 if (!place) return place.error();
                                 return attach_to_member(session, *place, !arguments->no_input);
                               });
  command->add_option("JOB", arguments->job, "Its number or name")->required();
  command->add_option("--rank", arguments->rank, "This member (0)")->type_name("NUMBER");
  command->add_flag("--no-stdin", arguments->no_input, "Only look");
}

struct CopyArguments {
  std::string from;
  std::string to;
  std::uint32_t rank = 0;
};

// "17:/data/x" as job and path; nothing: a path of this machine. A path with a colon in it is
// written with "./" before it.
std::optional<std::pair<std::string, std::string>> inside(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || text.find('/') < colon) return std::nullopt;
  return std::pair(text.substr(0, colon), text.substr(colon + 1));
}

Result<int> copy(const Session& session, const CopyArguments& arguments) {
  const auto from = inside(arguments.from);
  const auto to = inside(arguments.to);
  if (from.has_value() == to.has_value()) {
    return err(ErrorCode::kInvalidArgument,
               "one of the two is in a job: divvy cp 17:/data/model.pt .");
  }
  const auto& [job, path] = from ? *from : *to;
  if (!path.starts_with('/')) {
    return err(ErrorCode::kInvalidArgument, "the path in the job is a whole one, like {}:/data",
               job);
  }
  const auto place = find_member(session, job, arguments.rank);
  if (!place) return place.error();
  return from ? copy_from_member(session, *place, path, arguments.to)
              : copy_to_member(session, *place, arguments.from, path);
}

struct ForwardArguments {
  std::string job;
  std::vector<std::string> ports;
  std::string address = "127.0.0.1";
  std::uint32_t rank = 0;
};

Result<int> forward(const Session& session, const ForwardArguments& arguments) {
  std::vector<ForwardedPort> ports;
  for (const std::string& text : arguments.ports) {
    DIVVY_TRY(port, parse_forwarded_port(text));
    ports.push_back(port);
  }
  const auto place = find_member(session, arguments.job, arguments.rank);
  if (!place) return place.error();
  return forward_ports(session, *place, ports, arguments.address);
}

void add_port_forward(CommandTree& tree) {
  auto arguments = std::make_shared<ForwardArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "port-forward", "Reach ports of a job from here", kForwardFooter,
               [arguments](const Session& session) { return forward(session, *arguments); });
  command->add_option("JOB", arguments->job, "Its number or name")->required();
  command->add_option("PORT", arguments->ports, "PORT, LOCAL:PORT, or :PORT for any local one")
      ->required();
  command->add_option("--rank", arguments->rank, "Of this member (0)")->type_name("NUMBER");
  command->add_option("--address", arguments->address, "Listen on this one (127.0.0.1)")
      ->type_name("ADDRESS");
}

}  // namespace

void add_member_commands(CommandTree& tree) {
  add_exec(tree);
  add_attach(tree);
  add_port_forward(tree);
  auto arguments = std::make_shared<CopyArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "cp", "Copy files into a job and out of it", kCopyFooter,
               [arguments](const Session& session) { return copy(session, *arguments); });
  command->add_option("FROM", arguments->from, "PATH or JOB:PATH")->required();
  command->add_option("TO", arguments->to, "JOB:FOLDER or PATH")->required();
  command->add_option("--rank", arguments->rank, "Of this member (0)")->type_name("NUMBER");
}

}  // namespace divvy::cli
