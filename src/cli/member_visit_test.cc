// exec and cp at the door of a real member, found through a daemon that only says where it is.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "run/testing.h"

namespace divvy::cli {
namespace {

class MemberVisits : public run::RuntimeTest {
 protected:
  void SetUp() override {
    run::RuntimeTest::SetUp();
    ASSERT_TRUE(runtime_->start(plain(17, {"sleep", "600"})));
    daemon_.on("GET /v1/jobs/17/members",
               fmt::format(R"({{"items":[{{"rank":0,"folder":"{}","phase":"living"}}]}})",
                           (options().members / to_string(key(17))).string()));
  }
  CliOutcome divvy(std::vector<std::string> arguments) {
    return run_divvy(arguments, daemon_.socket());
  }
  std::string path(const std::string& name) const { return (daemon_.folder() / name).string(); }
  static std::string content(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  FakeDaemon daemon_;
};

TEST_F(MemberVisits, ExecRunsTheCommandAndHasItsExitStatus) {
  const std::string file = path("said");
  EXPECT_EQ(divvy({"exec", "17", "-e", "WORD=hello", "--", "sh", "-c",
                   "echo $WORD > " + file + "; exit 7"})
                .status,
            7);
  EXPECT_EQ(content(file), "hello\n");
  EXPECT_EQ(divvy({"exec", "17", "--", "sh", "-c", "kill -9 $$"}).status, 137);
  EXPECT_EQ(divvy({"exec", "17", "--", "no-such-program"}).status, kExitNoSuchCommand);
}

TEST_F(MemberVisits, FilesAreCopiedOutAndIn) {
  std::ofstream(path("a.txt")) << "text";
  EXPECT_EQ(divvy({"cp", "17:" + path("a.txt"), path("b.txt")}).status, kExitOk);
  EXPECT_EQ(content(path("b.txt")), "text");
  std::filesystem::create_directory(path("into"));
  EXPECT_EQ(divvy({"cp", path("b.txt"), "17:" + path("into")}).status, kExitOk);
  EXPECT_EQ(content(path("into/b.txt")), "text");
  EXPECT_EQ(divvy({"cp", "17:" + path("into"), path("folder")}).status, kExitOk);
  EXPECT_EQ(content(path("folder/b.txt")), "text");
  EXPECT_EQ(divvy({"cp", "17:" + path("missing"), path("c")}).status, kExitError);
  EXPECT_EQ(divvy({"cp", path("missing"), "17:/tmp"}).status, kExitNotFound);
}

}  // namespace
}  // namespace divvy::cli
