#include "agent/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <system_error>

#include "agent/member_pump.h"
#include "run/log_reader.h"
#include "run/member_folder.h"
#include "run/shepherd_client.h"
#include "sys/frames.h"
#include "sys/pipe.h"

namespace divvy::agent {
namespace {

constexpr std::size_t kLinesAtOnce = 1'000;
// Where no descriptor says that there is more.
constexpr int kLookAgainMs = 500;

sys::LineStream stream_of(run::LogStream stream) {
  switch (stream) {
    case run::LogStream::kStdout:
      return sys::LineStream::kOutput;
    case run::LogStream::kStderr:
      return sys::LineStream::kError;
    case run::LogStream::kDivvy:
      break;
  }
  return sys::LineStream::kDivvy;
}

std::string to_frames(std::vector<run::LogLine> lines) {
  std::string frames;
  for (run::LogLine& line : lines) {
    frames +=
        sys::to_bytes(sys::LineFrame{line.at, stream_of(line.stream), true, std::move(line.text)});
  }
  return frames;
}

// What whoever reads output says: nothing yet, that it is enough, or that they are gone.
enum class Reader { kStays, kHasEnough, kGone };
Reader listen_to_reader(int peer, sys::FrameReader& frames) {
  std::array<char, 4096> piece;
  const ssize_t got = ::recv(peer, piece.data(), piece.size(), MSG_DONTWAIT);
  if (got == 0) return Reader::kGone;
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Reader::kStays : Reader::kGone;
  frames.add({piece.data(), static_cast<std::size_t>(got)});
  for (;;) {
    const auto frame = frames.next();
    if (!frame) return Reader::kGone;
    if (!*frame) return Reader::kStays;
    if (std::holds_alternative<sys::InputEndFrame>(**frame)) return Reader::kHasEnough;
  }
}

void tell_output(int peer, run::LogReader& log, bool follow) {
  sys::FrameReader frames;
  bool caught_up = false;
  for (;;) {
    log.clear_watch();
    for (;;) {
      auto lines = log.read(kLinesAtOnce);
      if (lines.empty()) break;
      caught_up = false;
      if (!sys::send_frames(peer, to_frames(std::move(lines)))) return;
    }
    const std::string now = sys::to_bytes(sys::CaughtUpFrame{});
    if (!follow) {
      end_stream(peer, to_frames(log.rest()) + now + sys::to_bytes(sys::EndFrame{}));
      return;
    }
    if (!caught_up && !sys::send_frames(peer, now)) return;
    caught_up = true;
    pollfd waits[] = {{peer, POLLIN, 0}, {log.watch_fd(), POLLIN, 0}};
    (void)::poll(waits, 2, log.watch_fd() < 0 ? kLookAgainMs : -1);
    if (waits[0].revents == 0) continue;
    const Reader reader = listen_to_reader(peer, frames);
    if (reader == Reader::kGone) return;
    if (reader == Reader::kHasEnough) follow = false;
  }
}

struct Owner {
  uid_t uid;
  gid_t gid;
};

// Starts a command or a copy with three pipes; those of our side are in the answer.
Result<MemberPump::Parts> start_with_pipes(run::ShepherdClient& client, const StreamOrder& order,
                                           const std::optional<Owner>& owner) {
  DIVVY_TRY(input, sys::make_pipe());
  DIVVY_TRY(output, sys::make_pipe());
  DIVVY_TRY(error, sys::make_pipe());
  const std::vector<int> streams{input.reader.get(), output.writer.get(), error.writer.get()};
  // So that it can open /dev/stdout once more, which looks at who owns the pipe.
  for (const int end : streams) {
    if (owner) (void)::fchown(end, owner->uid, owner->gid);
  }
  if (order.kind == StreamOrder::Kind::kExec) {
    DIVVY_RETURN_IF_ERROR(client.exec({.command = order.command,
                                       .environment = order.environment,
                                       .working_directory = order.path,
                                       .terminal = std::nullopt},
                                      streams));
  } else {
    DIVVY_RETURN_IF_ERROR(client.copy(
        {.path = order.path, .out = order.kind == StreamOrder::Kind::kCopyOut}, streams));
  }
  MemberPump::Parts parts;
  parts.input = unblocked(std::move(input.writer), false);
  parts.outputs.push_back({unblocked(std::move(output.reader), false), false});
  parts.outputs.push_back({unblocked(std::move(error.reader), false), true});
  return parts;
}

Result<MemberPump::Parts> start_in_terminal(run::ShepherdClient& client, const StreamOrder& order) {
  DIVVY_TRY(fd, client.exec_in_terminal({.command = order.command,
                                         .environment = order.environment,
                                         .working_directory = order.path,
                                         .terminal = std::nullopt},
                                        {order.rows, order.columns}));
  MemberPump::Parts parts;
  parts.input = unblocked(std::move(fd), false);
  parts.input_end = MemberPump::Input::kUnclosed;
  parts.outputs.push_back({UniqueFd(::fcntl(parts.input.get(), F_DUPFD_CLOEXEC, 0)), false});
  parts.all_output = true;
  return parts;
}

Result<MemberPump::Parts> attach(run::ShepherdClient& client) {
  DIVVY_TRY(attached, client.attach());
  MemberPump::Parts parts;
  if (attached.input) parts.input = unblocked(std::move(*attached.input), true);
  parts.input_end = MemberPump::Input::kAttached;
  parts.outputs.push_back({std::move(attached.output), false});
  parts.outputs.push_back({std::move(attached.error), true});
  parts.all_output = true;
  return parts;
}

Result<MemberPump::Parts> begin(run::ShepherdClient& client, const StreamOrder& order,
                                const std::optional<Owner>& owner) {
  if (order.kind == StreamOrder::Kind::kAttach) return attach(client);
  if (order.kind == StreamOrder::Kind::kExec && order.terminal) {
    return start_in_terminal(client, order);
  }
  return start_with_pipes(client, order, owner);
}

std::optional<Owner> owner_of(const std::filesystem::path& folder) {
  const auto member = run::MemberFolder::open(folder);
  if (!member) return std::nullopt;
  const auto orders = member->orders();
  if (!orders) return std::nullopt;
  return Owner{orders->member.uid, orders->member.gid};
}

}  // namespace

Streams::~Streams() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const Session& session : sessions_) {
      if (session.done) continue;
      ::shutdown(session.peer.get(), SHUT_RDWR);
      if (session.shepherd >= 0) ::shutdown(session.shepherd, SHUT_RDWR);
    }
  }
  // Nobody adds to it any more.
  for (Session& session : sessions_) session.thread.join();
}

Result<Streams::Work> Streams::prepare_visit(const StreamOrder& order) const {
  const std::filesystem::path folder = folder_of_(order.key);
  auto visit = run::ShepherdClient::begin(folder);
  if (!visit && visit.error().code == ErrorCode::kUnavailable) {
    return err(ErrorCode::kFailedPrecondition, "{} does not run", to_string(order.key));
  }
  if (!visit) return err(std::move(visit).error());
  auto client = std::make_shared<run::ShepherdClient>(*std::move(visit));
  const int fd = client->fd();
  return Work{[client, order, owner = owner_of(folder)](int peer) {
                auto parts = begin(*client, order, owner);
                if (!parts) {
                  end_stream(peer, sys::to_bytes(sys::RefusedFrame{parts.error()}));
                  return;
                }
                parts->peer = peer;
                parts->client = client.get();
                MemberPump(*std::move(parts)).run();
              },
              fd};
}

Result<Streams::Work> Streams::prepare(const StreamOrder& order) const {
  if (order.kind == StreamOrder::Kind::kOutput) {
    DIVVY_TRY(opened, run::LogReader::open(folder_of_(order.key), {order.tail, order.since}));
    auto log = std::make_shared<run::LogReader>(std::move(opened));
    return Work{[log, follow = order.follow](int peer) { tell_output(peer, *log, follow); }};
  }
  if (order.kind == StreamOrder::Kind::kPort || order.kind == StreamOrder::Kind::kJoin) {
    return err(ErrorCode::kInvalidArgument, "this goes through a channel of a relay");
  }
  return prepare_visit(order);
}

void Streams::remove_finished() {
  for (auto session = sessions_.begin(); session != sessions_.end();) {
    if (!session->done) {
      ++session;
      continue;
    }
    session->thread.join();
    session = sessions_.erase(session);
  }
}

Result<UniqueFd> Streams::open(const StreamOrder& order) {
  DIVVY_TRY(work, prepare(order));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  }
  UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  const std::lock_guard lock(mutex_);
  if (stopping_) return err(ErrorCode::kUnavailable, "the agent is ending");
  remove_finished();
  if (sessions_.size() >= most_) {
    return err(ErrorCode::kResourceExhausted,
               "{} streams to members of this machine are open already; close some", most_);
  }
  Session& session = sessions_.emplace_back();
  session.peer = std::move(ours);
  session.shepherd = work.shepherd;
  try {
    session.thread = std::thread([this, &session, work = std::move(work)] {
      // A member that no longer reads its input is an error of write().
      sigset_t broken_pipe;
      sigemptyset(&broken_pipe);
      sigaddset(&broken_pipe, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
      work.run(session.peer.get());
      const std::lock_guard done(mutex_);
      session.peer.reset();
      session.done = true;
    });
  } catch (const std::system_error& error) {
    sessions_.pop_back();
    return err(ErrorCode::kResourceExhausted, "no thread for the stream: {}", error.what());
  }
  return theirs;
}

}  // namespace divvy::agent
