// Commands about the store of divvyd: backup, restore.
#include <spawn.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/text.h"
#include "base/units.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/on_this_machine.h"
#include "cli/session.h"

extern char** environ;

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

Result<int> back_up(const Session& session, const std::string& file) {
  DIVVY_RETURN_IF_ERROR(check_on_this_machine(session));
  const fs::path to = fs::absolute(file);
  const Asked made =
      ask(session, "POST", "/v1/backup", json::serialize(json::object{{"to", to.string()}}));
  if (!made) return made.status();
  std::error_code code;
  const auto size = fs::file_size(to, code);
  return session.print(fmt::format("{}: a backup{}\n", escape_for_terminal(to.string()),
                                   code ? "" : ", " + humanize(Bytes(size))));
}

// The exit status of `divvyd --restore FILE`, which says itself what is wrong.
Result<int> run_restore(const fs::path& divvyd, const fs::path& file) {
  std::string program = divvyd.string();
  std::string option = "--restore";
  std::string from = file.string();
  char* arguments[] = {program.data(), option.data(), from.data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ);
  if (failed != 0) {
    return err(ErrorCode::kIo, "{} could not be started: {}", program, std::strerror(failed));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitError;
}

Result<int> restore(const Session& session, const std::string& file) {
  DIVVY_RETURN_IF_ERROR(check_on_this_machine(session));
  std::error_code code;
  if (!fs::is_regular_file(file, code)) {
    return session.fail(Error{ErrorCode::kNotFound,
                              fmt::format("there is no backup {}", escape_for_terminal(file))});
  }
  // Somebody's own divvyd is no service of systemd.
  const bool own = session.services.daemon.may_start;
  const Status there = session.local().reach();
  if (there || there.error().code != ErrorCode::kUnavailable) {
    session.say(fmt::format(
        "divvyd runs and would not notice: stop it first ({}; jobs run on) and try again",
        own ? "pkill -u $(id -u) -x divvyd" : "systemctl stop divvyd"));
    return kExitError;
  }
  const auto restored = run_restore(session.services.daemon.program, fs::absolute(file));
  if (!restored) return session.fail(restored.error());
  if (*restored != 0) return kExitError;
  return session.print(fmt::format("the store is what it was in {}; start divvyd again: {}\n",
                                   escape_for_terminal(file),
                                   own ? "divvyd --background" : "systemctl start divvyd"));
}

}  // namespace

void add_backup_commands(CommandTree& tree) {
  auto file = std::make_shared<std::string>();
  CLI::App* backup =
      tree.add(heading::kPeople, "backup", "Write a backup of jobs, users, queues and usage",
               kBackupFooter, [file](const Session& session) { return back_up(session, *file); });
  backup->add_option("FILE", *file, "A new file")->required();
  CLI::App* put_back =
      tree.add(heading::kPeople, "restore", "Put everything back to what it was in a backup",
               kRestoreFooter, [file](const Session& session) { return restore(session, *file); });
  put_back->add_option("FILE", *file, "That `divvy backup` has written")->required();
}

}  // namespace divvy::cli
