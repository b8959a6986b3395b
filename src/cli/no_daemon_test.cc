// What commands say where no daemon answers.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <sstream>

#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "base/unix_address.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

bool contains(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

TEST(JobCommandsAlone, SayThatNoDaemonRuns) {
  const CliOutcome outcome = run_divvy({"list"}, "/nowhere/api.sock");
  EXPECT_EQ(outcome.status, kExitError);
  EXPECT_EQ(outcome.err,
            "divvy: no divvyd answers at /nowhere/api.sock: No such file or directory\n"
            "It is root's to start: systemctl start divvyd. `divvy doctor` says what is wrong.\n");
  EXPECT_EQ(outcome.out, "");
}

// Of a user's own daemon.
std::string said_by_list_without_daemon(const std::filesystem::path& socket) {
  Terminal terminal;
  terminal.environment = [](const char*) { return std::nullopt; };
  Services services{.version = "1.2.3", .inventory = {}};
  services.daemon.socket = socket;
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run({"list"}, services, terminal, out, err), kExitError);
  return err.str();
}

TEST(JobCommandsAlone, SayWhichCommandsStartADaemon) {
  const std::string said = said_by_list_without_daemon("/nowhere/api.sock");
  EXPECT_TRUE(contains(said, "`divvy submit` and `divvy run` start a divvyd by themselves"))
      << said;
}

TEST(JobCommandsAlone, SayThatTheJobsOfADaemonThatIsGoneAreKept) {
  const TemporaryFolder folder;
  const auto address = unix_address(folder / "api.sock");
  ASSERT_TRUE(address.has_value());
  {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  }
  const std::string said = said_by_list_without_daemon(folder / "api.sock");
  EXPECT_TRUE(contains(said, "Its jobs are kept and run on")) << said;
  EXPECT_FALSE(contains(said, "Nothing waits")) << said;
}
}  // namespace
}  // namespace divvy::cli
