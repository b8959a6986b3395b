// -o of all commands: whoever lists things has the same formats, and whoever prints one thing can
// print it for a program. The commands are found as a shell finds them, so that a new one is seen.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/text.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

using Words = std::vector<std::string>;

std::set<std::string> completed(Words words, const std::string& last) {
  words.insert(words.begin(), {"__complete", "--"});
  words.push_back(last);
  const std::string text = run_divvy(words, "/nowhere/api.sock").out;
  std::set<std::string> found;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) found.emplace(line.substr(0, line.find('\t')));
  }
  return found;
}

std::string joined(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

void walk(const Words& command, const std::function<void(const Words&)>& leaf) {
  const std::set<std::string> groups = {
      "",      "slice",   "gpu",    "ledger", "cdi",   "queue",   "quota",    "user",
      "token", "context", "config", "sim",    "bench", "session", "schedule", "secret"};
  const std::set<std::string> commands_too = {"serve", "submit"};
  const bool has_more = groups.contains(joined(command));
  if (!has_more) leaf(command);
  if (!has_more && !commands_too.contains(joined(command))) return;
  for (const std::string& below : completed(command, "")) {
    Words next = command;
    next.push_back(below);
    walk(next, leaf);
  }
}

TEST(OutputFormats, AreTheSameForEveryCommandThatListsThings) {
  const std::set<std::string> lists = {
      "list",         "get",          "ps",           "gpus",  "gpu list",      "slice list",
      "events",       "queue list",   "quota list",   "usage", "user list",     "token list",
      "context list", "session list", "session apps", "sweep", "schedule list", "audit",
      "nodes",        "serve list",   "secret list"};
  // They print no thing: they do something, follow something, or print a file in its own format.
  const std::set<std::string> without = {"attach",
                                         "backup",
                                         "cdi clean",
                                         "cdi show",
                                         "completion",
                                         "config get",
                                         "config set",
                                         "config view",
                                         "context add",
                                         "context remove",
                                         "context use",
                                         "cp",
                                         "delete",
                                         "exec",
                                         "gpu cordon",
                                         "gpu drain",
                                         "gpu uncordon",
                                         "login",
                                         "logout",
                                         "logs",
                                         "man",
                                         "port-forward",
                                         "prune",
                                         "queue reset",
                                         "queue set",
                                         "quota reset",
                                         "quota set",
                                         "requeue",
                                         "restore",
                                         "resume",
                                         "run",
                                         "set",
                                         "session start",
                                         "session open",
                                         "session extend",
                                         "session logs",
                                         "session stop",
                                         "slice create",
                                         "slice delete",
                                         "suspend",
                                         "token create",
                                         "token revoke",
                                         "ssh",
                                         "ssh-config",
                                         "ssh-proxy",
                                         "schedule suspend",
                                         "schedule resume",
                                         "schedule delete",
                                         "secret set",
                                         "secret delete",
                                         "serve delete",
                                         "update",
                                         "user add",
                                         "user remove",
                                         "user set",
                                         "wait"};
  std::set<std::string> seen;
  walk({}, [&](const Words& command) {
    const std::string name = joined(command);
    seen.insert(name);
    const bool has_output = completed(command, "--output").contains("--output");
    EXPECT_EQ(has_output, !without.contains(name)) << name;
    if (!has_output) return;
    Words with_option = command;
    with_option.emplace_back("-o");
    const std::set<std::string> formats = completed(with_option, "");
    for (const char* format : {"table", "json", "yaml"}) {
      EXPECT_TRUE(formats.contains(format)) << name << " -o " << format;
    }
    for (const char* format : {"wide", "name"}) {
      EXPECT_TRUE(!lists.contains(name) || formats.contains(format)) << name << " -o " << format;
    }
  });
  for (const std::string& name : lists) EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace divvy::cli
