#include "cli/port_forward.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <list>
#include <mutex>
#include <system_error>

#include "cli/exit_codes.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

constexpr int kNotFound = 404;
constexpr std::size_t kForwardedPiece = std::size_t{32} << 10;
constexpr std::chrono::milliseconds kNoDescriptors{100};  // until they are asked for again

struct Listening {
  UniqueFd socket;
  ForwardedPort port;
};

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (code != std::errc() || end != text.data() + text.size() || port == 0) {
    return err(ErrorCode::kInvalidArgument, "{} is no port: they go from 1 to 65535", text);
  }
  return port;
}

Result<Listening> listen_on(const std::string& address, ForwardedPort port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port.local);
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) {
    return err(ErrorCode::kInvalidArgument, "--address {}: this has to be like 127.0.0.1", address);
  }
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t size = sizeof to;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 ||
      ::listen(socket.get(), 128) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&to), &size) != 0) {
    return err(ErrorCode::kIo, "port {} of this machine cannot be used: {}", port.local,
               std::strerror(errno));
  }
  port.local = ntohs(to.sin_port);
  return Listening{std::move(socket), port};
}

// Whoever connected sees a broken connection, and no empty answer.
void refuse(UniqueFd socket) {
  const linger at_once{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

// One direction of a pair of sockets.
struct Direction {
  int from;
  int to;
  std::string bytes = {};
  bool open = true;

  // What came is passed on before more is read.
  void step(const pollfd& in, const pollfd& out) {
    if (!bytes.empty() && out.revents != 0) {
      const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) close();
    } else if (bytes.empty() && open && in.revents != 0) {
      bytes.resize(kForwardedPiece);
      const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
      bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close();
    }
  }
  void close() {
    open = false;
    bytes.clear();
    (void)::shutdown(to, SHUT_WR);
  }
};

// Until both directions have ended, or somebody says that it is enough.
void join_sockets(int local, int remote, int stop) {
  Direction out{local, remote};
  Direction in{remote, local};
  while (out.open || in.open) {
    const auto wants = [](const Direction& from, const Direction& to) {
      const bool reads = from.open && from.bytes.empty();
      return static_cast<short>((reads ? POLLIN : 0) | (to.bytes.empty() ? 0 : POLLOUT));
    };
    const short of_local = wants(out, in);
    const short of_remote = wants(in, out);
    // One that is waited for in no way would say for ever that it has hung up.
    pollfd waits[] = {{of_local == 0 ? -1 : local, of_local, 0},
                      {of_remote == 0 ? -1 : remote, of_remote, 0},
                      {stop, POLLIN, 0}};
    if (::poll(waits, 3, -1) < 0 && errno != EINTR) return;
    if (waits[2].revents != 0) return;
    out.step(waits[0], waits[1]);
    in.step(waits[1], waits[0]);
    // The other side cannot be told that one has no more to say, so its end is the end.
    if (!in.open && in.bytes.empty()) return;
  }
}

class Forwarder {
 public:
  Forwarder(const Session& session, Daemon daemon, const MemberPlace& place, PortNow port_now)
      : session_(session),
        daemon_(std::move(daemon)),
        place_(place),
        port_now_(std::move(port_now)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Forwarder() {
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof one);
    for (Connection& connection : connections_) connection.thread.join();
  }
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  void accept_from(const Listening& listening) {
    std::erase_if(connections_, [](Connection& connection) {
      if (connection.done) connection.thread.join();
      return connection.done.load();
    });
    UniqueFd socket(::accept4(listening.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      // It stays in line until there are descriptors again: not asked for all the time.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kNoDescriptors);
      return;
    }
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    Connection& connection = connections_.emplace_back();
    try {
      connection.thread = std::thread(
          [this, &connection, port = listening.port.remote, local = std::move(socket)]() mutable {
            serve(port, std::move(local));
            connection.done = true;
          });
    } catch (const std::system_error& error) {
      connections_.pop_back();
      say(fmt::format("a connection was refused: {}", error.what()));
    }
  }

 private:
  struct Connection {
    std::thread thread;
    std::atomic<bool> done{false};
  };

  void say(const std::string& text) {
    const std::lock_guard lock(saying_);
    session_.say(text);
  }

  // Of a cluster: a connection for each.
  void serve_pod(std::uint16_t port, UniqueFd local) {
    const auto made =
        open_in_pod(daemon_, place_, new_channel_name(), {{"kind", "port"}, {"port", port}});
    if (!made || !made->here) {
      say(made ? problem_text(made->reply) : made.error().message);
      return refuse(std::move(local));
    }
    join_sockets(local.get(), made->here.get(), stop_.get());
  }

  void serve(std::uint16_t port, UniqueFd local) {
    if (daemon_.is_cluster()) return serve_pod(port, std::move(local));
    if (port_now_) port = port_now_(port);
    Carrying carrying{
        .daemon = daemon_, .place = place_, .name = new_channel_name(), .stop = stop_.get()};
    // Whoever comes while the daemon is replaced waits for the next one.
    const auto opened =
        open_channel_patiently(daemon_, place_, carrying.name, {{"kind", "port"}, {"port", port}},
                               carrying.patience, stop_.get());
    if (!opened || !*opened || !(*opened)->ok()) {
      if (!opened) say(opened.error().message);
      if (opened && *opened) say(problem_text(**opened));
      return refuse(std::move(local));
    }
    carrying.patience = time_kept(**opened);
    const Status carried = carry_channel(carrying, std::move(local));
    if (!carried) say(carried.error().message);
  }

  const Session& session_;
  const Daemon daemon_;
  const MemberPlace place_;
  const PortNow port_now_;
  UniqueFd stop_;
  std::mutex saying_;
  std::list<Connection> connections_;
};

}  // namespace

Result<ForwardedPort> parse_forwarded_port(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    DIVVY_TRY(port, parse_port(text));
    return ForwardedPort{port, port};
  }
  ForwardedPort ports;
  DIVVY_TRY(remote, parse_port(text.substr(colon + 1)));
  ports.remote = remote;
  if (colon == 0) return ports;
  DIVVY_TRY(local, parse_port(text.substr(0, colon)));
  ports.local = local;
  return ports;
}

int forward_ports(const Session& session, const MemberPlace& place,
                  const std::vector<ForwardedPort>& ports, const std::string& address,
                  const ForwardedText& text, const PortNow& port_now) {
  auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  // Whoever may not look into the job is told so now, and not by their first connection. The job
  // and its member are there, so what is not found is the channel, which nobody has opened.
  const auto may = daemon->ask(
      "GET", fmt::format("/v1/jobs/{}/channels?channel={}", place.job, new_channel_name()));
  if (!may) return session.fail(may.error());
  if (may->status != kNotFound) return session.fail(*may);
  // Of every thread, so that those of connections leave them to this one.
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGHUP});
  if (!signals) return session.fail(signals.error());
  (void)std::signal(SIGPIPE, SIG_IGN);
  std::vector<Listening> listening;
  std::vector<ForwardedPort> open;
  std::string lines;
  for (const ForwardedPort& port : ports) {
    auto one = listen_on(address, port);
    if (!one) return session.fail(one.error());
    lines += fmt::format("{}:{} is port {} of job {}\n", address, one->port.local, one->port.remote,
                         place.job);
    open.push_back(one->port);
    listening.push_back(*std::move(one));
  }
  if (const int status = session.print(text ? text(open) : lines); status != kExitOk) return status;
  session.out.flush();
  Forwarder forwarder(session, *std::move(daemon), place, port_now);
  for (;;) {
    std::vector<pollfd> waits{{signals->fd(), POLLIN, 0}};
    for (const Listening& one : listening) waits.push_back({one.socket.get(), POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return kExitError;
    if (waits[0].revents != 0 && signals->next() != 0) return kExitOk;
    for (std::size_t i = 0; i < listening.size(); ++i) {
      if (waits[i + 1].revents != 0) forwarder.accept_from(listening[i]);
    }
  }
}

}  // namespace divvy::cli
