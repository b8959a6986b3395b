#include "net/local_paths.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace divvy::net {
namespace {

// Asked by somebody who is not root, which changes this process for good: in one of its own.
template <typename Check>
void as_somebody(const Check& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv("DIVVY_RUN_DIR");
    ::unsetenv("XDG_RUNTIME_DIR");
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(9);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

class LocalPaths : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::permissions(machine_, std::filesystem::perms(0755)); }
  TemporaryFolder machine_;
};

TEST_F(LocalPaths, ACommandFindsTheDaemonOfTheMachineAlsoWhileItIsDown) {
  as_somebody([this] {
    return client_run_folder(false, machine_).folder == run_folder() &&
           !client_run_folder(false, machine_).of_the_machine;
  });
  std::ofstream(machine_ / "divvyd.lock") << "1\n";
  as_somebody([this] {
    const ClientRun run = client_run_folder(false, machine_);
    return run.folder == machine_ && run.of_the_machine;
  });
}

TEST_F(LocalPaths, SimulatedGpusAndANamedFolderAreOnesOwn) {
  std::ofstream(machine_ / "divvyd.lock") << "1\n";
  as_somebody([this] { return client_run_folder(true, machine_).folder == run_folder(); });
  as_somebody([this] {
    ::setenv("DIVVY_RUN_DIR", "/my/own", 1);
    const ClientRun run = client_run_folder(false, machine_);
    return run.folder == "/my/own" && !run.of_the_machine;
  });
}

}  // namespace
}  // namespace divvy::net
