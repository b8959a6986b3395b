#include "cli/app_session.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <thread>

#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/job_view.h"
#include "cli/logs_command.h"
#include "cli/member_channel.h"
#include "cli/member_visit.h"
#include "cli/port_forward.h"
#include "cli/session.h"
#include "model/member_port.h"

namespace divvy::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{200};
constexpr milliseconds kPatience{5'000};  // for an answer of something that listens
constexpr std::uint64_t kLastLines = 20;

// "HTTP/1.1 200 OK": whether the server is able to answer; what it thinks of us does not matter.
bool is_answer(std::string_view line) {
  int status = 0;
  const std::size_t space = line.find(' ');
  if (!line.starts_with("HTTP/1.") || space == std::string_view::npos) return false;
  const auto read = std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
  return read.ec == std::errc() && status >= 100 && status < 500;
}

bool answers_http(int socket, const std::string& path) {
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
  if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return false;
  }
  std::string line;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (line.find('\n') == std::string::npos && line.size() < 1024) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wait{socket, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) != 1) return false;
    std::array<char, 256> bytes;
    const ssize_t got = ::read(socket, bytes.data(), bytes.size());
    if (got <= 0) break;
    line.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return is_answer(line);
}

bool is_ready(const Daemon& daemon, const AppTemplate& app, const AppSession& opened) {
  const MemberPlace place{.job = opened.job};
  const std::string name = new_channel_name();
  const boost::json::object port{{"kind", "port"}, {"port", opened.port}};
  if (daemon.is_cluster()) {
    const auto pod = open_in_pod(daemon, place, name, port);
    if (!pod || !pod->here) return false;
    return answers_http(pod->here.get(), app.ready.empty() ? "/" : app.ready);
  }
  const auto answer = open_channel(daemon, place, name, port);
  if (!answer || !answer->ok()) return false;
  auto channel = MemberChannel::begin(daemon, place, name);
  return channel && (app.ready.empty() || answers_http((*channel)->fd(), app.ready));
}

// The exit status where it never will be.
std::optional<int> wait_until_ready(const Session& session, const Daemon& daemon,
                                    const AppTemplate& app, AppSession& opened) {
  const DetachOnInterrupt detach(
      fmt::format("stopped waiting; the session goes on: divvy session open {}", opened.job));
  for (bool said = false;; std::this_thread::sleep_for(kPause)) {
    const bool ready = is_ready(daemon, app, opened);
    const Asked job = ask(session, "GET", fmt::format("/v1/jobs/{}", opened.job));
    if (!job) return job.status();
    const std::string state = job.answer()["state"].text();
    if (is_final_state(state)) {
      say_how_it_ended(session, app, opened.job, state);
      return kExitError;
    }
    // Who answered was the app only if it runs still: others may have its port when it has ended.
    if (ready && state == "running") return std::nullopt;
    // Every attempt has ports of its own.
    if (const auto now = app_session_of(job.answer())) opened = *now;
    if (!said) session.say(fmt::format("waiting until {} answers ...", app.name));
    said = true;
  }
}

// In whatever the desktop has for it; nothing where there is no desktop.
void open_browser(const Session& session, const std::string& address) {
  const auto& environment = session.terminal.environment;
  if (!environment("DISPLAY") && !environment("WAYLAND_DISPLAY")) return;
  std::string program = environment("BROWSER").value_or("xdg-open");
  std::string argument = address;
  std::array<char*, 3> words{program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  }
  pid_t child = 0;
  (void)::posix_spawnp(&child, words[0], &files, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
}

}  // namespace

TemplateFolders app_folders(const Session& session) {
  return template_folders(session.terminal.environment, "apps");
}

std::optional<AppSession> app_session_of(const Answer& job) {
  const Answer labels = job["spec"]["labels"];
  AppSession found;
  found.app = labels[kSessionLabel].text();
  if (found.app.empty()) return std::nullopt;
  found.job = static_cast<std::uint64_t>(job["id"].number().value_or(0));
  found.token = job["spec"]["environment"][kSessionToken].raw();
  const std::string port = labels[kSessionPortLabel].raw();
  if (port.empty()) {
    const auto attempt = static_cast<std::uint32_t>(job["attempt"].number().value_or(0));
    found.port = model::first_port(model::JobId(found.job), attempt, 1);
  } else {
    (void)std::from_chars(port.data(), port.data() + port.size(), found.port);
  }
  return found;
}

void say_how_it_ended(const Session& session, const AppTemplate& app, std::uint64_t job,
                      const std::string& state) {
  (void)show_logs(session, job, {.tail = kLastLines});
  session.say(fmt::format("session {} ({}) ended: {}; `divvy logs {}` has all that it wrote", job,
                          app.name, state, job));
}

int open_session(const Session& session, const AppTemplate& app, AppSession opened,
                 const OpenWish& wish) {
  const MemberPlace place{.job = opened.job};
  if (!app.is_web()) {
    ExecWish shell;
    shell.command = {"sh", "-c", "exec \"${SHELL:-/bin/sh}\""};
    shell.terminal = true;
    if (::isatty(STDIN_FILENO) == 0) {
      session.say(
          fmt::format("{} is for a terminal: divvy exec {} -- COMMAND runs one command in "
                      "it",
                      app.name, opened.job));
      return kExitUsage;
    }
    if (const auto kind = session.terminal.environment("TERM")) {
      shell.environment.push_back("TERM=" + *kind);
    }
    return exec_in_member(session, place, shell);
  }
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  if (const auto never = wait_until_ready(session, *daemon, app, opened)) return *never;
  const auto where = [&](const std::vector<ForwardedPort>& ports) {
    const std::string address = fmt::format("http://{}:{}{}", wish.address, ports.front().local,
                                            with_token(app.open, opened.token));
    if (wish.browser) open_browser(session, address);
    const std::string login = app.login.empty() ? "" : with_token(app.login, opened.token) + "\n";
    session.say(fmt::format("session {}: open until Ctrl-C, which leaves it running", opened.job));
    return address + "\n" + login;
  };
  // Every attempt has ports of its own, and the session may be started again meanwhile.
  const auto port_now = [&daemon = *daemon, job = opened.job](std::uint16_t before) {
    const auto reply = daemon.ask("GET", fmt::format("/v1/jobs/{}", job));
    const auto answer = reply && reply->ok() ? Answer::parse(reply->body) : Result<Answer>();
    const auto now = answer ? app_session_of(*answer) : std::nullopt;
    return now ? now->port : before;
  };
  return forward_ports(session, place, {{.local = wish.local_port, .remote = opened.port}},
                       wish.address, where, port_now);
}

}  // namespace divvy::cli
