// The daemon as the commands speak with it: JSON over its Unix socket on this machine or, where a
// context says so, over the network. Runs on the main thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "net/http.h"

namespace divvy::cli {

// One answer: the status and, whatever it is, a JSON object.
struct Reply {
  int status = 0;
  std::string body;
  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
};

struct Question {
  std::string method;
  std::string path{};  // With the query
  std::string body{};
  net::HttpHeaders headers{};
  std::optional<std::chrono::milliseconds> timeout = std::chrono::seconds(30);
};

// Whoever listens there is root's daemon, and this process is not root's: the daemon of the
// machine.
[[nodiscard]] bool is_of_root(const std::filesystem::path& socket);

class Daemon {
 public:
  struct Options {
    std::filesystem::path socket;
    std::filesystem::path program;            // divvyd, to be started where none runs
    bool simulated = false;                   // The environment asks for simulated GPUs
    bool may_start = true;                    // Where none runs; false: it is root's to start
    std::optional<net::HttpTarget> remote{};  // Instead of the socket
    std::string token{};                      // Empty: the kernel says who we are
    // Instead of any daemon: answers in this process, of a cluster.
    net::HttpHandler cluster{};
  };
  explicit Daemon(Options options) : options_(std::move(options)) {}

  // kUnavailable when none runs; the message also says what to do then.
  [[nodiscard]] Result<Reply> ask(
      const std::string& method, const std::string& path, const std::string& body = {},
      std::optional<std::chrono::milliseconds> timeout = std::chrono::seconds(30)) const;

  [[nodiscard]] Result<Reply> ask(const Question& question) const;
  // An answer that grows: net::http_follow(). The body of the reply is that of a refusal.
  [[nodiscard]] Result<Reply> follow(const Question& question, const net::HttpPieces& pieces) const;

  // A connection of its own: net::http_upgrade(). Without a tunnel the reply is the refusal. Of a
  // cluster it is a socket instead.
  struct Upgraded {
    Reply reply;
    std::unique_ptr<net::HttpTunnel> tunnel;
    UniqueFd here = {};
  };
  [[nodiscard]] Result<Upgraded> upgrade(Question question, const std::string& protocol) const;

  // kUnavailable: none runs. Any other error is about one that does: it does not answer, or is not
  // to be believed.
  [[nodiscard]] Status reach() const;
  [[nodiscard]] bool running() const { return reach().has_value(); }
  // Not the one of this machine's socket.
  [[nodiscard]] bool is_remote() const { return options_.remote.has_value() || is_cluster(); }
  [[nodiscard]] bool is_cluster() const { return static_cast<bool>(options_.cluster); }
  // Starts one in the background and waits until it is ready.
  [[nodiscard]] Status start() const;
  // The same where none runs; true: it was started.
  [[nodiscard]] Result<bool> start_where_none_runs() const;
  // Whether the GPUs of the one that runs are simulated. kFailedPrecondition: this environment asks
  // for the other kind. One that asks for nothing takes what root's daemon has for the machine; but
  // a daemon of one's own may be left over from trying simulated ones out.
  [[nodiscard]] Result<bool> has_simulated_gpus() const;
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  Options options_;
};

// The sentence in a reply that is no success, and the exit status that belongs to it.
[[nodiscard]] std::string problem_text(const Reply& reply);
[[nodiscard]] int problem_exit(const Reply& reply);

}  // namespace divvy::cli
