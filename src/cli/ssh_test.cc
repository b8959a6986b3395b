// Keys and configuration of ssh into jobs, with the real ssh and ssh-keygen. The session itself is
// tested with a job that runs (tests/ssh_test.cc).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "cli/fake_daemon.h"
#include "cli/ssh_config.h"
#include "cli/ssh_keys.h"
#include "cli/ssh_member.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// What a command prints.
std::string printed(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char piece[4096];
  for (std::size_t got = 0; (got = std::fread(piece, 1, sizeof piece, pipe)) > 0;) {
    text.append(piece, got);
  }
  ::pclose(pipe);
  return text;
}

class SshFiles : public ::testing::Test {
 protected:
  [[nodiscard]] Environment environment() const {
    return [this](const char* name) -> std::optional<std::string> {
      const std::string which = name;
      if (which == "HOME") return folder_.path().string();
      if (which == "DIVVY_CONFIG") return config_;
      return std::nullopt;
    };
  }
  [[nodiscard]] SshKeys open() const {
    auto keys = SshKeys::open(environment());
    EXPECT_TRUE(keys) << keys.error().message;
    return *std::move(keys);
  }

  TemporaryFolder folder_;
  std::optional<std::string> config_;
};

TEST_F(SshFiles, KeysAreMadeOnceAndForNobodyElse) {
  const SshKeys keys = open();
  EXPECT_EQ(keys.folder(), folder_ / ".config/divvy/ssh");
  const std::string login = content(keys.identity());
  EXPECT_NE(login.find("OPENSSH PRIVATE KEY"), std::string::npos);
  const auto first = keys.for_host("divvy-train");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->login.starts_with("ssh-ed25519 "));
  EXPECT_NE(first->host.find("OPENSSH PRIVATE KEY"), std::string::npos);
  const auto again = open().for_host("divvy-train");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->login, first->login);
  EXPECT_EQ(again->host, first->host);
  EXPECT_EQ(content(keys.identity()), login);
  for (const fs::path& file : {keys.identity(), keys.folder() / "hosts/divvy-train"}) {
    EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << file;
  }
  EXPECT_EQ(fs::status(keys.folder()).permissions(), fs::perms::owner_all);
}

TEST_F(SshFiles, EachHostHasAKeyOfItsOwnByWhichSshKnowsIt) {
  const SshKeys keys = open();
  const auto train = keys.for_host("divvy-train");
  const auto other = keys.for_host("divvy-v1.2");
  ASSERT_TRUE(train && other);
  EXPECT_NE(train->host, other->host);
  const std::string known = content(keys.known_hosts());
  EXPECT_EQ(std::ranges::count(known, '\n'), 2) << known;
  EXPECT_NE(
      printed("ssh-keygen -l -F divvy-v1.2 -f " + keys.known_hosts().string()).find("ED25519"),
      std::string::npos);
  // Another key there is for ssh to refuse; one that is missing was removed by somebody.
  const std::string wrong = "divvy-train ssh-ed25519 AAAA\n";
  std::ofstream(keys.known_hosts()) << wrong;
  ASSERT_TRUE(keys.for_host("divvy-train"));
  EXPECT_EQ(content(keys.known_hosts()), wrong);
  fs::remove(keys.known_hosts());
  ASSERT_TRUE(keys.for_host("divvy-train"));
  EXPECT_EQ(content(keys.known_hosts()), known);
}

TEST_F(SshFiles, NamesThatAreNoneOfAHostAndFoldersThatOthersCanReadAreRefused) {
  const SshKeys keys = open();
  for (const char* const name : {"", "../id_ed25519", "a/b", "a b", "a\nb", "-a"}) {
    EXPECT_FALSE(keys.for_host(name)) << name;
  }
  ASSERT_EQ(::chmod(keys.folder().c_str(), 0755), 0);
  const auto open_to_all = SshKeys::open(environment());
  ASSERT_FALSE(open_to_all);
  EXPECT_NE(open_to_all.error().message.find("chmod 700"), std::string::npos);
}

TEST_F(SshFiles, SshUnderstandsTheConfiguration) {
  config_ = (folder_ / "a 100% \"plain\" folder/config.yaml").string();
  EXPECT_FALSE(ssh_options(open(), {})) << "ssh has no way to say that";
  config_ = (folder_ / "a 100% plain folder/config.yaml").string();
  const SshKeys keys = open();
  const auto every = ssh_options(
      keys,
      {.pattern = "divvy-*", .command = {"/opt/it's 5%/divvy", "ssh-proxy"}, .appends_host = true});
  const auto one = ssh_options(keys, {.pattern = "divvy-17-3",
                                      .command = {"divvy", "ssh-proxy", "17"},
                                      .user = "ada",
                                      .alias = "divvy-17-3"});
  ASSERT_TRUE(every && one);
  std::ofstream(folder_ / "config")
      << ssh_block("divvy-17-3", *one) << ssh_block("divvy-*", *every);
  const auto shown = [&](const std::string& host) {
    return printed("ssh -G -F " + (folder_ / "config").string() + " " + host);
  };
  const std::string train = shown("bob@divvy-train");
  // As the shell gets it.
  EXPECT_NE(train.find("proxycommand '/opt/it'\\''s 5%%/divvy' 'ssh-proxy' --user '%r' -- '%n'\n"),
            std::string::npos)
      << train;
  EXPECT_NE(train.find("userknownhostsfile " + keys.folder().parent_path().parent_path().string()),
            std::string::npos)
      << train;
  EXPECT_NE(train.find("user bob\n"), std::string::npos) << train;
  EXPECT_NE(train.find("stricthostkeychecking true\n"), std::string::npos) << train;
  EXPECT_NE(train.find("identitiesonly yes\n"), std::string::npos) << train;
  const std::string member = shown("divvy-17-3");
  EXPECT_NE(member.find("user ada\n"), std::string::npos) << member;
  EXPECT_NE(member.find("hostkeyalias divvy-17-3\n"), std::string::npos) << member;
  EXPECT_NE(member.find("proxycommand 'divvy' 'ssh-proxy' '17' --user '%r'\n"), std::string::npos)
      << member;
}

TEST_F(SshFiles, AUserFromAJobIsOnlyANameOrNothing) {
  for (const char* const name : {"ada", "a.b-c_D9"}) EXPECT_TRUE(is_plain_user(name)) << name;
  for (const char* const name :
       {"", "-oProxyCommand=x", "a b", "a'b", "$(x)", "a\nb", "%h", "a;b", "a\x1b[0m"}) {
    EXPECT_FALSE(is_plain_user(name)) << name;
  }
  EXPECT_FALSE(is_plain_user(std::string(257, 'a')));
}

TEST_F(SshFiles, TheConfigurationIsPrintedOrIncluded) {
  FakeDaemon daemon;
  const std::map<std::string, std::string> home{{"HOME", folder_.path().string()}};
  const CliOutcome shown = run_divvy({"ssh-config", "--user", "ada"}, daemon.socket(), home);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("Host divvy-*\n"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("  User ada\n"), std::string::npos) << shown.out;
  EXPECT_FALSE(fs::exists(folder_ / ".ssh"));
  EXPECT_EQ(run_divvy({"ssh-config", "--user", "a;b"}, daemon.socket(), home).status, 2);

  fs::create_directory(folder_ / ".ssh");
  std::ofstream(folder_ / ".ssh/config") << "Host other\n  User x\n";
  for (int i = 0; i < 2; ++i) {
    const CliOutcome written = run_divvy({"ssh-config", "--write"}, daemon.socket(), home);
    EXPECT_EQ(written.status, 0) << written.err;
    EXPECT_EQ(written.out, "");
  }
  const std::string ours = (folder_ / ".config/divvy/ssh/config").string();
  EXPECT_EQ(content(folder_ / ".ssh/config"), "Include \"" + ours + "\"\n\nHost other\n  User x\n");
  EXPECT_NE(content(ours).find("Host divvy-*\n"), std::string::npos);
}

TEST(SshMember, KeysAreInTheInputAndNotInTheCommand) {
  const SshKeys::Handover keys{.login = "ssh-ed25519 LOGIN x", .host = "-----\nSECRET\n-----\n"};
  EXPECT_EQ(sshd_first_input(keys), "ssh-ed25519 LOGIN x\n-----\nSECRET\n-----\n.\n");
  const auto command = sshd_command("ada");
  ASSERT_EQ(command.size(), 5U);
  EXPECT_EQ(command[4], "ada");
}

}  // namespace
}  // namespace divvy::cli
