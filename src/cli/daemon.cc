#include "cli/daemon.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cli/exit_codes.h"
#include "cli/kube_answers.h"

extern char** environ;

namespace divvy::cli {
namespace {

namespace json = boost::json;

// A daemon that is started from inside a tenant is none of it.
bool is_for_tenants_only(std::string_view entry) {
  for (const std::string_view name :
       {"LD_PRELOAD=", "DIVVY_SOCKET=", "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_"}) {
    if (entry.starts_with(name)) return true;
  }
  return false;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) != 0;) {
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  return text;
}

json::object parse_object(const std::string& body) {
  boost::system::error_code code;
  json::value value = json::parse(body, code);
  if (code || !value.is_object()) return {};
  return value.as_object();
}

std::string text_in(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

net::HttpTarget target_of(const Daemon::Options& options) {
  return options.remote ? *options.remote : net::HttpTarget{.socket = options.socket};
}

net::HttpRequest request_of(const Question& question, const Daemon::Options& options) {
  net::HttpRequest request{.method = question.method,
                           .path = question.path,
                           .query = {},
                           .body = question.body,
                           .headers = question.headers};
  if (!options.token.empty()) request.headers["authorization"] = "Bearer " + options.token;
  return request;
}

// What to do where nobody answers: it depends on whose daemon it is to be.
std::string advice_for(const Daemon::Options& options) {
  if (options.remote && options.remote->network) {
    return "Is it running there? `divvy context list` shows whom you ask; --context local asks "
           "this "
           "machine.";
  }
  if (options.remote) return "Is it running? --context local asks the divvyd of this machine.";
  std::error_code ignored;
  if (options.may_start && std::filesystem::exists(options.socket, ignored)) {
    return "There was one. Its jobs are kept and run on; `divvyd --background` goes on with them, "
           "as `divvy submit` and `divvy run` do.";
  }
  if (options.may_start) {
    return "Nothing waits, runs or holds a slice then. `divvy submit` and `divvy run` start a "
           "divvyd by themselves.";
  }
  return "It is root's to start: systemctl start divvyd. `divvy doctor` says what is wrong.";
}

template <typename T>
Result<T> advised(Result<T> answer, const Daemon::Options& options) {
  if (!answer && answer.error().code == ErrorCode::kUnavailable) {
    answer.error().message += "\n" + advice_for(options);
  }
  return answer;
}

}  // namespace

Result<Reply> Daemon::ask(const std::string& method, const std::string& path,
                          const std::string& body,
                          std::optional<std::chrono::milliseconds> timeout) const {
  return ask({.method = method, .path = path, .body = body, .timeout = timeout});
}

Result<Reply> Daemon::ask(const Question& question) const {
  if (is_cluster()) return ask_here(options_.cluster, request_of(question, options_));
  DIVVY_TRY(response, advised(net::http_request(target_of(options_), request_of(question, options_),
                                                question.timeout),
                              options_));
  if (response.status == 503) {
    return err(ErrorCode::kUnavailable, "divvyd is busy with too many callers; try again");
  }
  return Reply{response.status, std::move(response.body)};
}

Result<Reply> Daemon::follow(const Question& question, const net::HttpPieces& pieces) const {
  if (is_cluster()) {
    return follow_here(options_.cluster, request_of(question, options_), question.timeout, pieces);
  }
  DIVVY_TRY(response, advised(net::http_follow(target_of(options_), request_of(question, options_),
                                               question.timeout, pieces),
                              options_));
  return Reply{response.status, std::move(response.body)};
}

Result<Daemon::Upgraded> Daemon::upgrade(Question question, const std::string& protocol) const {
  question.headers["upgrade"] = protocol;
  if (is_cluster()) {
    Upgraded made;
    DIVVY_TRY(reply, upgrade_here(options_.cluster, request_of(question, options_), made.here));
    made.reply = std::move(reply);
    return made;
  }
  DIVVY_TRY(made, advised(net::http_upgrade(target_of(options_), request_of(question, options_),
                                            question.timeout),
                          options_));
  return Upgraded{{made.answer.status, std::move(made.answer.body)}, std::move(made.tunnel), {}};
}

bool is_of_root(const std::filesystem::path& socket) {
  struct stat info{};
  return ::geteuid() != 0 && ::stat(socket.c_str(), &info) == 0 && info.st_uid == 0;
}

Status Daemon::reach() const {
  DIVVY_RETURN_IF_ERROR(ask("GET", "/v1/node"));
  return {};
}

Result<bool> Daemon::start_where_none_runs() const {
  const Status there = reach();
  if (there) return false;
  if (there.error().code != ErrorCode::kUnavailable) return err(there.error());
  DIVVY_RETURN_IF_ERROR(start());
  return true;
}

Result<bool> Daemon::has_simulated_gpus() const {
  DIVVY_TRY(reply, ask("GET", "/v1/node"));
  const json::object node = parse_object(reply.body);
  const json::value* simulated = node.if_contains("simulated");
  if (simulated == nullptr || !simulated->is_bool()) return options_.simulated;
  if (simulated->as_bool() == options_.simulated) return options_.simulated;
  if (simulated->as_bool() && is_of_root(options_.socket)) return true;
  return err(ErrorCode::kFailedPrecondition,
             "the divvyd at {} has {} GPUs, but {}.\nSet DIVVY_RUN_DIR to another folder for {}.",
             options_.socket.string(), options_.simulated ? "this machine's own" : "simulated",
             options_.simulated ? "DIVVY_SIM_... asks for simulated ones"
                                : "nothing in the environment asks for those",
             options_.simulated ? "a daemon with simulated ones" : "one with the real ones");
}

Status Daemon::start() const {
  if (is_remote()) {
    return err(ErrorCode::kUnavailable, "the divvyd of another machine is started there");
  }
  if (!options_.may_start) {
    return err(ErrorCode::kUnavailable,
               "the divvyd of this machine ({}) does not run; root can start it: systemctl start "
               "divvyd",
               options_.socket.parent_path().string());
  }
  std::error_code code;
  if (!std::filesystem::exists(options_.program, code)) {
    return err(ErrorCode::kNotFound,
               "no divvyd runs, and there is none at {} to start; install Divvy again",
               options_.program.string());
  }
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_for_tenants_only(*entry)) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  std::string program = options_.program.string();
  std::string flag = "--background";
  char* arguments[] = {program.data(), flag.data(), nullptr};
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    return err(ErrorCode::kResourceExhausted, "no pipe: {}", std::strerror(errno));
  }
  // What it says is ours to tell, and only when it matters.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  const std::string words = failed == 0 ? read_all(pipe[0]) : "";
  ::close(pipe[0]);
  if (failed != 0) {
    return err(ErrorCode::kIo, "{} could not be started: {}", program, std::strerror(failed));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  // Somebody else may have started one at the same moment; theirs is as good, once it is ready.
  const bool another = WIFEXITED(status) && WEXITSTATUS(status) == 3;
  for (int attempt = 0; another && attempt < 100; ++attempt) {
    const Status there = reach();
    if (there || there.error().code != ErrorCode::kUnavailable) return there;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return err(ErrorCode::kUnavailable, "divvyd could not be started: {}",
             trim(words.empty() ? "it did not say why" : words));
}

std::string problem_text(const Reply& reply) {
  const json::object problem = parse_object(reply.body);
  std::string text = text_in(problem, "detail");
  // These two are sent without a word, to whoever comes when there is no place left.
  if (text.empty() && reply.status == 429) {
    text = "divvyd has as many connections of yours as it takes; try again when some have ended";
  }
  if (text.empty() && reply.status == 503) {
    text = "divvyd has as many connections as it takes; try again when some have ended";
  }
  if (text.empty()) text = fmt::format("divvyd answered with status {}", reply.status);
  const std::string advice = text_in(problem, "advice");
  if (!advice.empty()) text += ".\n" + advice;
  return text;
}

int problem_exit(const Reply& reply) {
  switch (reply.status) {
    case 400:
      return kExitUsage;
    case 401:
    case 403:
      return kExitDenied;
    case 404:
      return kExitNotFound;
    case 504:
      return kExitWaitedTooLong;
    default:
      return kExitError;
  }
}

}  // namespace divvy::cli
