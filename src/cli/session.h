// What a command has while it runs: where to print, how, and the daemon to ask. Made by app.cc for
// one command. Runs on the main thread.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cli/answer.h"
#include "cli/app.h"
#include "cli/daemon.h"
#include "cli/server_contexts.h"
#include "cli/style.h"

namespace CLI {
class App;
}

namespace divvy::cli {

class CommandTree;

struct Session {
  const Services& services;
  const Terminal& terminal;
  const Style& style;
  std::ostream& out;
  std::ostream& err;
  const CommandTree& tree;
  const CLI::App& command;  // the one that runs
  ServerChoice choice;      // from --context and --server

  // Whom the options, the environment and the file of contexts say to ask. kInvalidArgument when
  // they name what there is not.
  [[nodiscard]] Result<Daemon> daemon() const;
  // The daemon of this machine, whatever the context is.
  [[nodiscard]] Daemon local() const { return Daemon(services.daemon); }
  [[nodiscard]] WallTime now() const;

  // Data on standard output, and whether that worked.
  int print(const std::string& text) const;
  // "divvy: ..." on standard error.
  int fail(const Error& error) const;
  int fail(const Reply& reply) const;
  void say(const std::string& chatter) const;
};

// A question and its answer, in the words of the commands about jobs: whatever went wrong was said
// on standard error, and the error side is the exit status.
class Asked {
 public:
  Asked(Answer answer, std::string body) : answer_(std::move(answer)), body_(std::move(body)) {}
  explicit Asked(int status) : status_(status) {}

  explicit operator bool() const { return !status_; }
  [[nodiscard]] int status() const { return *status_; }
  [[nodiscard]] const Answer& answer() const { return answer_; }
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  std::optional<int> status_;
  Answer answer_;
  std::string body_;
};
[[nodiscard]] Asked ask(const Session& session, const std::string& method, const std::string& path,
                        const std::string& body = {}, const net::HttpHeaders& headers = {});

// "name=a%20b&queue=x" from names and values; those with an empty value are left out.
using QueryParts = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] std::string write_query(const QueryParts& parts);
// One part of a path.
[[nodiscard]] std::string escape_for_url(std::string_view text);

}  // namespace divvy::cli
