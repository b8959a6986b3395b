// What members of `divvy submit mpi` run; nobody types it.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/job_reference.h"
#include "cli/member_visit.h"
#include "cli/mpi_member.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

constexpr std::chrono::minutes kMpiPatience{5};  // for members that start together

struct MpiArguments {
  std::string meeting;
  std::uint32_t processes = 1;
  std::vector<std::string> words;
  std::string host;
};

Result<int> be_mpi_member(const Session& session, const MpiArguments& arguments) {
  const auto variables = [&session](const char* name) {
    return session.terminal.environment(name);
  };
  DIVVY_TRY(member,
            read_mpi_member(variables, arguments.meeting, arguments.processes, arguments.words));
  std::error_code code;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code || self.string().find(' ') != std::string::npos) {
    return err(ErrorCode::kUnsupported,
               "mpirun can start nothing from {}: it takes the path apart at its spaces",
               self.parent_path().string());
  }
  const auto ended = run_mpi_member(member, self.string() + " mpi-start", kMpiPatience);
  if (!ended) return session.fail(ended.error());
  return *ended;
}

// In the place of ssh.
Result<int> start_mpi_daemon(const Session& session, const MpiArguments& arguments) {
  DIVVY_TRY(rank, member_of_host(arguments.host));
  const auto job = session.terminal.environment("DIVVY_JOB_ID");
  if (!job || arguments.words.empty()) {
    return err(ErrorCode::kInvalidArgument, "mpirun calls this in a job of `divvy submit mpi`");
  }
  const auto place = find_member(session, *job, rank);
  if (!place) return place.error();
  std::string line;
  for (const std::string& word : arguments.words) line += (line.empty() ? "" : " ") + word;
  ExecWish wish;
  wish.command = mpi_daemon_command(line);
  return exec_in_member(session, *place, wish);
}

}  // namespace

void add_mpi_commands(CommandTree& tree) {
  auto arguments = std::make_shared<MpiArguments>();
  CLI::App* member =
      tree.add("", "mpi-member", "A member of a job of submit mpi", "",
               [arguments](const Session& session) { return be_mpi_member(session, *arguments); });
  member->add_option("MEETING", arguments->meeting, "What its members have in common")->required();
  member->add_option("PROCESSES", arguments->processes, "Of each member")->required();
  tree.takes_command(*member, arguments->words, 2);
  CLI::App* start = tree.add(
      "", "mpi-start", "Starts a daemon of mpirun in a member", "",
      [arguments](const Session& session) { return start_mpi_daemon(session, *arguments); });
  start->add_option("HOST", arguments->host, "The member, as mpirun calls it")->required();
  tree.takes_command(*start, arguments->words, 1);
}

}  // namespace divvy::cli
