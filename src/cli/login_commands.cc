// Commands that sign in with a provider of OpenID Connect, and out: login, logout. divvyd speaks
// with the provider; what is kept here is a token of Divvy's, in a file of its own.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/people_help_texts.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using std::chrono::seconds;

// A daemon that is restarted meanwhile has forgotten the sign-in; one that is slow has not.
constexpr int kMostFailures = 5;

// The context that is asked, which has to be one of the file: its token is kept there.
struct LoginPlace {
  ClientConfig config;
  std::string name;
  Daemon daemon;  // without a token: an old one may be no good
};

Result<LoginPlace> find_login_place(const Session& session) {
  const Environment& environment = session.terminal.environment;
  DIVVY_TRY(config, load_client_config(environment));
  const bool by_address =
      !session.choice.context &&
      (session.choice.server || !environment("DIVVY_SERVER").value_or("").empty());
  const auto asked = session.choice.context ? session.choice.context : environment("DIVVY_CONTEXT");
  const std::string name = asked && !asked->empty() ? *asked : config.context;
  if (by_address) {
    return err(ErrorCode::kFailedPrecondition,
               "a token is kept for a context; make one: divvy context add NAME --at "
               "https://HOST:PORT");
  }
  if (name.empty() || name == "local") {
    return err(ErrorCode::kFailedPrecondition,
               "on this machine the kernel says who you are; to sign in elsewhere, name a context: "
               "divvy login --context NAME");
  }
  const ServerContext* context = config.find(name);
  if (context == nullptr) {
    return err(ErrorCode::kNotFound, "there is no context {}; `divvy context list` shows them",
               escape_for_terminal(name));
  }
  if (context->is_cluster()) {
    return err(ErrorCode::kUnsupported,
               "the context {} is a cluster: who you are there is what the kubeconfig says", name);
  }
  DIVVY_TRY(target, parse_server(context->server, context->ca));
  DIVVY_RETURN_IF_ERROR(check_keeps_secrets(target));
  Daemon::Options options = session.services.daemon;
  options.remote = std::move(target);
  options.token.clear();
  return LoginPlace{std::move(config), name, Daemon(std::move(options))};
}

// Where `divvy login` keeps the token of a context: beside the file of contexts.
Result<fs::path> login_token_file(const Environment& environment, const std::string& context) {
  DIVVY_TRY(file, client_config_file(environment));
  return fs::absolute(file.parent_path() / "tokens" / context);
}

// All or nothing, readable for nobody else.
Status write_token_file(const fs::path& file, const std::string& token) {
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  const fs::path fresh = file.string() + ".new";
  const auto failed = [&] {
    return err(ErrorCode::kIo, "{}: {}", fresh.string(), std::strerror(errno));
  };
  const std::string line = token + "\n";
  UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd || ::fchmod(fd.get(), 0600) != 0 ||
      ::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::fsync(fd.get()) != 0 || ::rename(fresh.c_str(), file.c_str()) != 0) {
    return failed();
  }
  return {};
}

// Until the person is done; the answer has the token then. An error side is an exit status.
tl::expected<Answer, int> await_sign_in(const Session& session, const Daemon& daemon,
                                        const Answer& begun) {
  const std::string question = json::serialize(json::object{{"login", begun["login"].raw()}});
  seconds pause(begun["pollSeconds"].number().value_or(5));
  seconds left(begun["expiresSeconds"].number().value_or(0));
  for (int failures = 0;;) {
    pause = std::clamp(pause, seconds(0), seconds(60));
    if (left < pause) {
      session.say("the code has expired; begin again: divvy login");
      return tl::unexpected(kExitError);
    }
    std::this_thread::sleep_for(pause);
    left -= std::max(pause, seconds(1));
    const auto reply = daemon.ask("POST", "/v1/sign-in/device/token", question);
    const bool may_pass = !reply || reply->status == 503 || reply->status == 504;
    if (may_pass && ++failures < kMostFailures) continue;
    if (!reply) return tl::unexpected(session.fail(reply.error()));
    if (!reply->ok()) return tl::unexpected(session.fail(*reply));
    failures = 0;
    auto answer = Answer::parse(reply->body);
    if (!answer) return tl::unexpected(session.fail(answer.error()));
    if ((*answer)["state"].raw() == "done") return *std::move(answer);
    pause = seconds((*answer)["pollSeconds"].number().value_or(5));
  }
}

Result<int> login(const Session& session) {
  auto place = find_login_place(session);
  if (!place) return session.fail(place.error());
  const Environment& environment = session.terminal.environment;
  const auto file = login_token_file(environment, place->name);
  if (!file) return session.fail(file.error());
  const auto reply = place->daemon.ask("POST", "/v1/sign-in/device");
  if (!reply) return session.fail(reply.error());
  if (!reply->ok()) return session.fail(*reply);
  const auto begun = Answer::parse(reply->body);
  if (!begun) return session.fail(begun.error());
  session.say(fmt::format("open {} in any browser and enter the code {}",
                          (*begun)["address"].text(), (*begun)["userCode"].text()));
  if (const std::string whole = (*begun)["completeAddress"].text(); !whole.empty()) {
    session.say("or open " + whole + " and compare the code");
  }
  const auto done = await_sign_in(session, place->daemon, *begun);
  if (!done) return done.error();
  if (const Status kept = write_token_file(*file, (*done)["token"].raw()); !kept) {
    return session.fail(kept.error());
  }
  // As it is now: the person took their time.
  auto config = load_client_config(environment);
  if (!config) return session.fail(config.error());
  ServerContext* const context = config->find(place->name);
  if (context == nullptr) {
    return session.fail(Error{ErrorCode::kNotFound, "the context is gone meanwhile"});
  }
  context->token_file = file->string();
  if (const Status saved = save_client_config(environment, *config); !saved) {
    return session.fail(saved.error());
  }
  return session.print(fmt::format("signed in to {} as {}\n", place->name, (*done)["user"].text()));
}

Result<int> logout(const Session& session) {
  auto place = find_login_place(session);
  if (!place) return session.fail(place.error());
  const Environment& environment = session.terminal.environment;
  ServerContext* const context = place->config.find(place->name);
  if (context->token_file.empty()) {
    session.say("nobody is signed in to " + place->name);
    return kExitOk;
  }
  if (!environment("DIVVY_TOKEN").value_or("").empty()) {
    return err(ErrorCode::kInvalidArgument,
               "DIVVY_TOKEN goes before the token of {}; unset it, or revoke it with `divvy token "
               "revoke`",
               place->name);
  }
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  // "divvy_ID_SECRET"
  const auto parts = split(daemon->options().token, '_');
  const std::string id(parts.size() == 3 ? parts[1] : "");
  const auto reply = daemon->ask("DELETE", "/v1/tokens/" + escape_for_url(id));
  if (!reply) return session.fail(reply.error());
  // One that is not valid any more needs no revoking.
  if (!reply->ok() && reply->status != 401) return session.fail(*reply);
  const auto own_file = login_token_file(environment, place->name);
  if (own_file && *own_file == context->token_file) (void)::unlink(own_file->c_str());
  context->token_file.clear();
  if (const Status saved = save_client_config(environment, place->config); !saved) {
    return session.fail(saved.error());
  }
  return session.print("signed out of " + place->name + "\n");
}

}  // namespace

void add_login_commands(CommandTree& tree) {
  tree.add(heading::kPeople, "login", "Sign in with the provider of a context", kLoginFooter,
           [](const Session& session) { return login(session); });
  tree.add(heading::kPeople, "logout", "Sign out: revoke the token of a context", kLogoutFooter,
           [](const Session& session) { return logout(session); });
}

}  // namespace divvy::cli
