#include "cli/member_visit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <csignal>
#include <ostream>

#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr MemberStream::Ends kOwn{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

int status_of(const sys::EndFrame& end) {
  return end.signal > 0 ? 128 + (end.signal & 127) : end.exit_code & 255;
}

int fail_to_start(const Session& session, const Error& error) {
  session.say(error.message);
  if (error.code == ErrorCode::kNotFound) return kExitNoSuchCommand;
  return error.code == ErrorCode::kPermissionDenied ? kExitDenied : kExitCannotRun;
}

}  // namespace

void say_loss(const Session& session, bool lost, bool raw) {
  const char* const text = lost ? "the connection to the job is lost; it goes on as soon as there "
                                  "is a way (Ctrl-C gives up)"
                                : "connected again";
  // A terminal that is handed through begins no line by itself.
  if (!raw) return session.say(text);
  session.err << "\r\ndivvy: " << text << "\r\n" << std::flush;
}

int exec_in_member(const Session& session, const MemberPlace& place, const ExecWish& wish) {
  // Before the connection, so that one that comes meanwhile is not lost.
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH});
  if (!signals) return session.fail(signals.error());
  json::object request{{"kind", "exec"},
                       {"command", json::value_from(wish.command)},
                       {"environment", json::value_from(wish.environment)},
                       {"path", wish.folder},
                       {"terminal", wish.terminal}};
  if (wish.terminal) {
    const sys::WindowFrame size = terminal_size();
    if (size.rows > 0) request["rows"] = size.rows;
    if (size.columns > 0) request["columns"] = size.columns;
  }
  auto stream = MemberStream::open(session, place, request, signals->fd());
  if (!stream) return stream.error();
  std::optional<RawTerminal> raw;
  const auto end =
      stream->run({.ends = kOwn,
                   .on_start = [&](bool, MemberStream::Ends&) -> Status {
                     if (!wish.terminal) return {};
                     DIVVY_TRY(taken, RawTerminal::take());
                     raw.emplace(std::move(taken));
                     return {};
                   },
                   .signals = &*signals,
                   .on_signal = [&](int number) -> std::optional<sys::Frame> {
                     if (number != SIGWINCH) return sys::SignalFrame{number};
                     if (!wish.terminal) return std::nullopt;
                     return terminal_size();
                   },
                   .on_loss = [&](bool lost) { say_loss(session, lost, raw.has_value()); }});
  raw.reset();
  if (!end) {
    if (end.error().code == ErrorCode::kCancelled) {
      session.say(end.error().message);
      return kExitDetached;
    }
    return stream->was_refused() ? fail_to_start(session, end.error()) : session.fail(end.error());
  }
  return status_of(**end);
}

int attach_to_member(const Session& session, const MemberPlace& place, bool input) {
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGHUP});
  if (!signals) return session.fail(signals.error());
  auto stream = MemberStream::open(session, place, {{"kind", "attach"}}, signals->fd());
  if (!stream) return stream.error();
  const auto end = stream->run(
      {.ends = kOwn,
       .on_start = [&](bool takes_input, MemberStream::Ends& ends) -> Status {
         if (input && !takes_input) {
           session.say(fmt::format("job {} takes no input; only its output is shown", place.job));
         }
         // Not the end of the job's input: others may type to it.
         if (!input || !takes_input) ends.input = -1;
         return {};
       },
       .signals = &*signals,
       .signals_stop = true,
       .on_loss = [&](bool lost) { say_loss(session, lost, false); }});
  if (!end) return session.fail(end.error());
  if (!*end) {
    session.say(fmt::format("detached; job {} goes on: divvy attach {}", place.job, place.job));
    return kExitDetached;
  }
  return status_of(**end);
}

}  // namespace divvy::cli
