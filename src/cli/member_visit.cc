#include "cli/member_visit.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <vector>

#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

using run::DoorAnswer;
using run::DoorVisit;

Result<DoorVisit> visit(const MemberPlace& place) {
  return DoorVisit::begin(std::filesystem::path(place.folder));
}

int status_of(const DoorAnswer& end) {
  return end.signal > 0 ? 128 + (end.signal & 127) : end.exit_code & 255;
}

int fail_to_start(const Session& session, const Error& error) {
  session.say(error.message);
  if (error.code == ErrorCode::kNotFound) return kExitNoSuchCommand;
  return error.code == ErrorCode::kPermissionDenied ? kExitDenied : kExitCannotRun;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
      continue;
    }
    if (wrote < 0 && errno != EINTR) return false;
    if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

// False at the end of it.
bool move_some(int from, int to) {
  std::array<char, 16'384> buffer{};
  const ssize_t got = ::read(from, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  return got > 0 && write_all(to, {buffer.data(), static_cast<std::size_t>(got)});
}

// What is read from `from` goes to `to`, until either ends.
struct Stream {
  int from = -1;
  int to = -1;
};

// Moves bytes until the visit is over and nothing is left to move. `on_signal` gets what came.
template <typename OnSignal, typename OnEnd>
Result<DoorAnswer> pump(DoorVisit& door, std::vector<Stream> streams, std::size_t inputs,
                        const SignalPipe& signals, OnSignal on_signal, OnEnd on_end) {
  std::optional<DoorAnswer> ended;
  for (;;) {
    std::vector<pollfd> waiting{{signals.fd(), POLLIN, 0}, {ended ? -1 : door.fd(), POLLIN, 0}};
    bool output_open = false;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      // After its end nothing more is sent to it, and what it had said is still read.
      const bool wanted = i >= inputs || !ended;
      waiting.push_back({wanted ? streams[i].from : -1, POLLIN, 0});
      output_open = output_open || (i >= inputs && streams[i].from >= 0);
    }
    if (ended && !output_open) return *ended;
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
      return err(ErrorCode::kIo, "nothing can be waited for");
    }
    if (waiting[0].revents != 0) {
      for (int number = 0; (number = signals.next()) != 0;) {
        if (!on_signal(number)) {
          DoorAnswer detached;
          detached.exit_code = kExitDetached;
          return detached;
        }
      }
    }
    if (!ended && waiting[1].revents != 0) {
      DIVVY_TRY(answer, door.ended(std::chrono::milliseconds(0)));
      if (answer) ended = *answer;
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (waiting[i + 2].revents == 0 || move_some(streams[i].from, streams[i].to)) continue;
      streams[i].from = -1;
      on_end(i);
    }
  }
}

}  // namespace

int exec_in_member(const Session& session, const MemberPlace& place,
                   const run::ExecRequest& request, bool terminal) {
  auto door = visit(place);
  if (!door) return session.fail(door.error());
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH});
  if (!signals) return session.fail(signals.error());
  Result<DoorAnswer> end;
  if (terminal) {
    auto other = door->exec_in_terminal(request, terminal_size());
    if (!other) return fail_to_start(session, other.error());
    auto raw = RawTerminal::take();
    if (!raw) return session.fail(raw.error());
    const int fd = other->get();
    end = pump(
        *door, {{STDIN_FILENO, fd}, {fd, STDOUT_FILENO}}, 1, *signals,
        [&](int number) {
          if (number != SIGWINCH) {
            (void)door->signal(number);
            return true;
          }
          const run::TerminalSize size = terminal_size();
          winsize now{};
          now.ws_row = size.rows;
          now.ws_col = size.columns;
          (void)::ioctl(fd, TIOCSWINSZ, &now);
          return true;
        },
        [](std::size_t) {});
  } else {
    const Status started = door->exec(request, {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
    if (!started) return fail_to_start(session, started.error());
    end = pump(
        *door, {}, 0, *signals,
        [&](int number) {
          if (number != SIGWINCH) (void)door->signal(number);
          return true;
        },
        [](std::size_t) {});
  }
  return end ? status_of(*end) : session.fail(end.error());
}

int attach_to_member(const Session& session, const MemberPlace& place, bool input) {
  auto door = visit(place);
  if (!door) return session.fail(door.error());
  auto attached = door->attach();
  if (!attached) return session.fail(attached.error());
  if (input && !attached->input) {
    session.say(fmt::format("job {} takes no input; only its output is shown", place.job));
  }
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGHUP});
  if (!signals) return session.fail(signals.error());
  std::vector<Stream> streams;
  std::size_t inputs = 0;
  if (input && attached->input) {
    streams.push_back({STDIN_FILENO, attached->input->get()});
    inputs = 1;
  }
  streams.push_back({attached->output.get(), STDOUT_FILENO});
  streams.push_back({attached->error.get(), STDERR_FILENO});
  const auto end = pump(
      *door, std::move(streams), inputs, *signals, [](int) { return false; },
      [&](std::size_t ended) {
        if (ended >= inputs) return;
        attached->input.reset();
        (void)door->close_input();
      });
  if (!end) return session.fail(end.error());
  if (end->exit_code == kExitDetached && end->kind == DoorAnswer::Kind::kDone) {
    session.say(fmt::format("detached; job {} goes on: divvy attach {}", place.job, place.job));
  }
  return status_of(*end);
}

}  // namespace divvy::cli
