// `divvy backup` and `divvy restore` against a daemon that answers canned documents, and a divvyd
// that only writes down how it was started.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

class Backup : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) {
    std::ofstream(daemon_.folder() / name) << text;
    return daemon_.folder() / name;
  }
  CliOutcome restore(const std::string& from, const std::filesystem::path& socket) {
    const auto program =
        file("divvyd", "#!/bin/sh\necho \"$@\" > " + (daemon_.folder() / "started").string() +
                           "\nexit " + std::to_string(exit_) + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    Terminal terminal;
    terminal.environment = [](const char*) { return std::nullopt; };
    Services services{.version = "1", .inventory = {}};
    services.daemon.socket = socket;
    services.daemon.program = program;
    services.daemon.may_start = own_;
    std::ostringstream out;
    std::ostringstream err;
    const int status = run({"restore", from}, services, terminal, out, err);
    return {status, out.str(), err.str()};
  }
  std::string started() const {
    std::ifstream stream(daemon_.folder() / "started");
    std::string line;
    std::getline(stream, line);
    return line;
  }
  FakeDaemon daemon_;
  int exit_ = 0;
  bool own_ = false;  // and not the machine's
};

TEST_F(Backup, AsksForAWholePath) {
  daemon_.on("POST /v1/backup", "{}");
  const CliOutcome outcome = run_divvy({"backup", "here.db"}, daemon_.socket());
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  const auto path = std::filesystem::absolute("here.db").string();
  EXPECT_EQ(daemon_.last_asked(), R"(POST /v1/backup {"to":")" + path + "\"}");
  EXPECT_EQ(outcome.out, path + ": a backup\n");
}

TEST_F(Backup, SaysWhyNoneWasMade) {
  daemon_.on("POST /v1/backup", R"({"detail":"a backup is made by root"})", 403);
  const CliOutcome outcome = run_divvy({"backup", "here.db"}, daemon_.socket());
  EXPECT_EQ(outcome.status, kExitDenied);
  EXPECT_EQ(outcome.err, "divvy: a backup is made by root\n");
}

TEST_F(Backup, IsRestoredByADivvydThatOnlyDoesThat) {
  const std::string from = file("old.db", "x").string();
  const CliOutcome outcome = restore(from, "/nowhere/api.sock");
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(started(), "--restore " + from);
  EXPECT_NE(outcome.out.find("start divvyd again: systemctl start divvyd"), std::string::npos)
      << outcome.out;
  own_ = true;
  const std::string own = restore(from, "/nowhere/api.sock").out;
  EXPECT_NE(own.find("start divvyd again: divvyd --background"), std::string::npos) << own;
  exit_ = 1;
  EXPECT_EQ(restore(from, "/nowhere/api.sock").status, kExitError);
}

TEST_F(Backup, IsNotRestoredUnderADaemonThatRuns) {
  daemon_.on("GET /v1/node", "{}");
  const CliOutcome outcome = restore(file("old.db", "x").string(), daemon_.socket());
  EXPECT_EQ(outcome.status, kExitError);
  EXPECT_NE(outcome.err.find("stop it first"), std::string::npos) << outcome.err;
  EXPECT_EQ(started(), "");
  EXPECT_NE(outcome.err.find("systemctl stop divvyd"), std::string::npos) << outcome.err;
  own_ = true;
  const std::string own = restore((daemon_.folder() / "old.db").string(), daemon_.socket()).err;
  EXPECT_EQ(own.find("systemctl"), std::string::npos) << own;
  EXPECT_EQ(restore("/nowhere.db", "/nowhere/api.sock").status, kExitNotFound);
}

}  // namespace
}  // namespace divvy::cli
