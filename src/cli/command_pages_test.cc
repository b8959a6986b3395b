// Help, completion, man pages and docs/commands.md are made from one tree.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "cli/log_follow.h"
#include "cli/server_contexts.h"
#include "cli/since.h"

namespace divvy::cli {
namespace {

CliOutcome divvy(const std::vector<std::string>& arguments) {
  return run_divvy(arguments, "/nowhere/api.sock");
}
std::string completed(std::vector<std::string> words) {
  words.insert(words.begin(), {"__complete", "--"});
  return divvy(words).out;
}
bool contains(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

TEST(Completion, OffersCommandsOptionsAndTheirValues) {
  EXPECT_TRUE(contains(completed({"su"}), "submit\tPut a job into a queue\n"));
  EXPECT_FALSE(contains(completed({""}), "__complete"));
  EXPECT_TRUE(contains(completed({"list", "--so"}), "--sort-by\t"));
  EXPECT_EQ(completed({"list", "-o", ""}), "table\nwide\njson\nyaml\nname\ncsv\n");
  EXPECT_EQ(completed({"list", "--output=y"}), "--output=yaml\n");
  EXPECT_EQ(completed({"wait", "17", "--for", "r"}), "running\n");
  EXPECT_EQ(completed({"queue", "s"}), "set\tSay what a queue may have; for operators\n");
  EXPECT_EQ(completed({"--color", "al"}), "always\n");
  EXPECT_EQ(completed({"submit", "-f", ""}), ":files\n");
  EXPECT_EQ(completed({"submit", "--", "py"}), ":files\n");
  EXPECT_EQ(completed({"completion", "z"}), "zsh\n");
}

// Only the group of what was typed is made, so every command has to be in the right one.
TEST(CommandsPage, EveryCommandIsFoundByItsName) {
  const std::string page = divvy({"man", "--markdown"}).out;
  int commands = 0;
  for (std::size_t at = page.find("\n### divvy "); at != std::string::npos;
       at = page.find("\n### divvy ", at + 1)) {
    const std::size_t begin = at + std::string_view("\n### divvy ").size();
    const std::string name = page.substr(begin, page.find('\n', begin) - begin);
    for (const auto& words : {std::vector<std::string>{name, "--help"}, {"help", name}}) {
      const CliOutcome help = divvy(words);
      EXPECT_EQ(help.status, kExitOk) << name << help.err;
      EXPECT_TRUE(contains(page, help.out)) << name;
    }
    ++commands;
  }
  EXPECT_GT(commands, 30);
}

TEST(Completion, KnowsWhatDivvydCanName) {
  FakeDaemon daemon;
  daemon.on("GET /v1/jobs", R"({"items":[{"id":18,"name":"train","state":"running"},
                                         {"id":17,"name":"train","state":"queued"}]})");
  daemon.on("GET /v1/tenants", R"({"items":[{"name":"web-1","user":"ada","state":"idle"}]})");
  daemon.on("GET /v1/slices", R"({"items":[{"name":"shared","user":"ada"}]})");
  daemon.on("GET /v1/gpus", R"({"items":[{"index":0,"model":"NVIDIA H200"},
                                         {"index":1,"model":"NVIDIA H200"}]})");
  daemon.on("GET /v1/tokens", R"({"items":[{"id":"a1b2","label":"laptop"}]})");
  const auto completed = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--"});
    return run_divvy(words, daemon.socket()).out;
  };
  EXPECT_EQ(completed({"get", ""}), "18\ttrain running\n17\ttrain queued\ntrain\trunning\n");
  EXPECT_EQ(completed({"get", "tr"}), "train\trunning\n");
  EXPECT_EQ(completed({"set", ""}), "web-1\tada idle\n");
  EXPECT_EQ(completed({"slice", "delete", "s"}), "shared\tada\n");
  EXPECT_EQ(completed({"submit", "--model", ""}), "NVIDIA H200\n");
  EXPECT_EQ(completed({"submit", "--topology", "n"}), "numa\nnvlink\n");
  EXPECT_EQ(completed({"token", "revoke", ""}), "a1b2\tlaptop\n");
  EXPECT_EQ(completed({"man", "queue", "s"}), "set\tSay what a queue may have; for operators\n");
}

TEST(Completion, OffersProgramsAfterTheDashes) {
  FakeDaemon daemon;
  std::ofstream(daemon.folder() / "train-it").put('\n');
  std::ofstream(daemon.folder() / "train.txt").put('\n');
  std::filesystem::permissions(daemon.folder() / "train-it", std::filesystem::perms::owner_all);
  const auto completed = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--"});
    return run_divvy(words, daemon.socket(), {{"PATH", daemon.folder().string()}}).out;
  };
  EXPECT_EQ(completed({"submit", "--gpu", "1", "--", "tr"}), "train-it\n:files\n");
  EXPECT_EQ(completed({"run", "tr"}), "train-it\n:files\n");
  EXPECT_EQ(completed({"exec", "17", "--", "tr"}), "train-it\n:files\n");
  EXPECT_EQ(completed({"submit", "--", "train-it", "tr"}), ":files\n");
}

TEST(Completion, HasAScriptForEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const CliOutcome outcome = divvy({"completion", shell});
    EXPECT_EQ(outcome.status, kExitOk);
    EXPECT_TRUE(contains(outcome.out, "divvy __complete --")) << shell;
  }
  EXPECT_EQ(divvy({"completion", "csh"}).status, kExitUsage);
}

TEST(Completion, OfBashKeepsANameWithASpaceInOneWord) {
  FakeDaemon folder;  // For its folder
  const auto script = folder.folder() / "script";
  std::ofstream(script) << divvy({"completion", "bash"}).out
                        << "divvy() { printf 'NVIDIA H200\\nplain\\tits text\\n'; }\n"
                           "COMP_WORDS=(divvy submit --model ''); COMP_CWORD=3\n"
                           "_divvy\n"
                           "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  FILE* const bash = ::popen(("bash " + script.string()).c_str(), "r");
  ASSERT_NE(bash, nullptr);
  std::string text;
  for (int c = 0; (c = std::fgetc(bash)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(bash), 0);
  EXPECT_EQ(text, "NVIDIA\\ H200\nplain\n");
}

TEST(ManPages, HaveEveryOptionOfTheHelp) {
  const std::string page = divvy({"man", "submit"}).out;
  EXPECT_TRUE(page.starts_with(".TH DIVVY\\-SUBMIT 1 ")) << page;
  EXPECT_TRUE(contains(page, ".B \\-\\-time\\-limit TIME\n"));
  EXPECT_TRUE(contains(page, ".SH EXAMPLES\n"));
  EXPECT_TRUE(contains(page, ".SH SEE ALSO\n"));
  EXPECT_EQ(divvy({"man", "sumbit"}).status, kExitUsage);
}

TEST(ManPages, OpenInAPagerOnATerminal) {
  FakeDaemon folder;  // For its folder
  const auto shown = folder.folder() / "shown";
  const auto with_program = [&](const char* name) {
    std::ofstream(folder.folder() / name)
        << "#!/bin/sh\necho \"$@\" > " << shown.string() << "\ncat >> " << shown.string() << "\n";
    std::filesystem::permissions(folder.folder() / name, std::filesystem::perms::owner_all);
  };
  const auto man = [&] {
    Terminal terminal;
    terminal.is_terminal = true;
    terminal.environment = [&](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) != "PATH") return std::nullopt;
      return folder.folder().string();
    };
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(run({"man", "submit"}, {.version = "1", .inventory = {}}, terminal, out, err), 0);
    std::ifstream file(shown);
    std::stringstream text;
    text << file.rdbuf();
    return out.str() + text.str();
  };
  EXPECT_TRUE(man().starts_with("Put a job into a queue")) << "nothing to show it with: " << man();
  with_program("less");
  EXPECT_TRUE(man().starts_with("\nPut a job into a queue")) << man();
  with_program("man");
  EXPECT_TRUE(man().starts_with("-l -\n.TH DIVVY\\-SUBMIT")) << man();
}

TEST(CommandsPage, IsWhatHelpPrints) {
  std::ifstream file(DIVVY_SOURCE_FOLDER "/docs/commands.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(divvy({"man", "--markdown"}).out, text.str())
      << "write it anew: divvy man --markdown > docs/commands.md";
}

TEST(CommandsPage, NamesNoPageThatIsNotThere) {
  const std::string page = divvy({"man", "--markdown"}).out;
  int pages = 0;
  for (std::size_t at = page.find("docs/"); at != std::string::npos;
       at = page.find("docs/", at + 1)) {
    const std::size_t end = page.find(".md", at);
    ASSERT_NE(end, std::string::npos);
    const std::string name = page.substr(at, end + 3 - at);
    EXPECT_TRUE(std::filesystem::exists(DIVVY_SOURCE_FOLDER "/" + name)) << name;
    ++pages;
  }
  EXPECT_GT(pages, 5);
}

TEST(CommandLine, LeavesTheWordsOfACommandAlone) {
  EXPECT_TRUE(contains(divvy({"exec", "17", "--rank", "x"}).err, "--rank")) << "ours";
  EXPECT_FALSE(contains(divvy({"exec", "17", "ls", "--rank", "x"}).err, "--rank")) << "theirs";
  EXPECT_TRUE(contains(divvy({"exec", "--help"}).out,
                       "Usage: divvy exec [options] JOB -- COMMAND [ARGUMENT...]"));
}

TEST(LogFollow, ShowsEachLineOnceAfterABreak) {
  std::string shown;
  LogFollow log(false, [&](std::string_view line) { shown += line; });
  const std::string a = "2026-11-15T12:00:00.100000000Z a\n";
  const std::string b = "2026-11-15T12:00:01.200000000Z b\n";
  EXPECT_FALSE(log.since());
  log.take(a + a + b.substr(0, 20));
  log.broken();
  EXPECT_EQ(log.since(), 1'794'743'998'100);
  log.take(a + a + b + a);  // A third of the same time and text is another one
  log.end();
  EXPECT_EQ(shown, "a\na\nb\na\n");
}

TEST(LogFollow, PassesOnWhatIsNoLogLine) {
  std::string shown;
  LogFollow log(true, [&](std::string_view line) { shown += line; });
  log.take("[x] text\nno end");
  log.end();
  EXPECT_EQ(shown, "[x] text\nno end\n");
}

TEST(Since, IsATimeAgoOrAMoment) {
  const WallTime now{std::chrono::milliseconds(kTestNow)};
  EXPECT_EQ(parse_since("30m", now), kTestNow - 1'800'000);
  EXPECT_EQ(parse_since("2026-11-15T12:00:00Z", now), kTestNow);
  EXPECT_EQ(parse_since("2026-11-15", now), kTestNow - 43'200'000);
  EXPECT_FALSE(parse_since("tomorrow", now));
}

TEST(ServerContexts, ReadWhatTheyWrite) {
  ClientConfig config;
  config.context = "lab";
  config.queue = "research/vision";
  config.contexts = {{"lab", "https://gpu.example:7443", "/a b/ca.pem", "/\"token\""},
                     {"other", "unix:/run/x", "", ""}};
  const auto read = read_client_config(write_client_config(config), "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, config);
}

TEST(ServerContexts, TellWhatIsWrongWithItsPlace) {
  const auto read = read_client_config("contexts:\n  lab:\n    sever: x\n", "f");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "f:2:3: a context has a server, like https://gpu.example:7443\n"
            "f:3:5: there is no field sever; did you mean server?");
}

TEST(ServerContexts, ATokenDoesNotTravelInTheClear) {
  const auto with = [](const std::string& server) {
    return choose_server({.context = {}, .server = server},
                         [](const char* name) -> std::optional<std::string> {
                           if (std::string_view(name) == "DIVVY_TOKEN") return "secret";
                           return std::nullopt;
                         });
  };
  EXPECT_FALSE(with("http://gpu.example:80"));
  EXPECT_TRUE(with("http://127.0.0.1:80"));
  EXPECT_TRUE(with("https://gpu.example:7443"));
  EXPECT_FALSE(with("ftp://gpu.example"));
  EXPECT_FALSE(with("https://"));
}

}  // namespace
}  // namespace divvy::cli
