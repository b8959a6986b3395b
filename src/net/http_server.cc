#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "net/http.h"
#include "net/listener.h"

namespace divvy::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;
using Stream = beast::basic_stream<Protocol>;

}  // namespace

Caller::Wait Caller::wait_for(int fd, std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    int left = -1;
    if (timeout.count() >= 0) {
      const auto rest =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      left = static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 3'600'000));
    }
    pollfd wait[2] = {{fd, POLLIN, 0}, {socket_, POLLRDHUP, 0}};
    const int count = ::poll(wait, 2, left);
    if (count < 0 && errno == EINTR) continue;
    if (wait[1].revents != 0) return Wait::kGone;
    if (wait[0].revents != 0) return Wait::kReady;
    if (count == 0 && (timeout.count() >= 0) && std::chrono::steady_clock::now() >= deadline) {
      return Wait::kTimeout;
    }
    if (count < 0) return Wait::kGone;
  }
}

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler handler, Listener listener)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        listener_(std::move(listener)),
        acceptor_thread_([this] { accept_all(); }) {}

  ~Impl() {
    stopping_ = true;
    // A blocked accept ends when its socket is shut down, and so do readers and waiters.
    listener_.stop();
    acceptor_thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const Session& session : sessions_) ::shutdown(session.socket, SHUT_RDWR);
    }
    for (Session& session : sessions_) session.thread.join();
  }

  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }

 private:
  struct Session {
    std::thread thread;
    int socket = -1;
    std::atomic<bool> done{false};
  };

  void accept_all() {
    while (!stopping_) {
      const Result<int> accepted = listener_.accept();
      if (stopping_) {
        if (accepted) ::close(*accepted);
        return;
      }
      if (!accepted) {
        // Out of descriptors, most probably; they come back as sessions end.
        log_warning("connection not accepted", {{"reason", accepted.error().message}});
        wait_for_a_session_to_end();
        continue;
      }
      const int fd = *accepted;
      const std::lock_guard lock(mutex_);
      remove_finished();
      if (sessions_.size() >= options_.max_connections) {
        refuse(fd);
        continue;
      }
      Session& session = sessions_.emplace_back();
      session.socket = fd;
      session.thread = std::thread([this, fd, &session] {
        serve(fd);
        finish(session, fd);
      });
    }
  }

  static void wait_for_a_session_to_end() {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  static void refuse(int fd) {
    constexpr std::string_view kBusy =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    (void)::send(fd, kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::close(fd);
  }

  void remove_finished() {
    for (auto session = sessions_.begin(); session != sessions_.end();) {
      if (session->done) {
        session->thread.join();
        session = sessions_.erase(session);
      } else {
        ++session;
      }
    }
  }

  void finish(Session& session, int fd) {
    const std::lock_guard lock(mutex_);
    ::close(fd);
    session.socket = -1;
    session.done = true;
  }

  // The whole life of one connection. `fd` stays ours.
  void serve(int fd) {
    ucred peer{0, Caller::kNobody, Caller::kNobody};
    socklen_t size = sizeof peer;
    // The kernel vouches for nobody on the network.
    if (!listener_.network() && ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      return;
    }
    const Caller caller(fd, peer.pid, peer.uid, peer.gid);
    try {
      // A context of its own, so that reads and writes can time out while the handler simply
      // blocks.
      asio::io_context context(1);
      Stream stream(context);
      boost::system::error_code code;
      const Protocol protocol(listener_.network() ? AF_INET6 : AF_UNIX, 0);
      code = stream.socket().assign(protocol, ::dup(fd), code);
      if (code) return;
      beast::flat_buffer buffer(options_.max_body + 65536);
      while (!stopping_ && exchange(context, stream, buffer, caller)) {
      }
    } catch (const std::exception& error) {
      log_warning("connection given up", {{"reason", error.what()}});
    }
  }

  // One request and its answer; false when the connection is to end.
  bool exchange(asio::io_context& context, Stream& stream, beast::flat_buffer& buffer,
                const Caller& caller) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(options_.max_body);
    parser.header_limit(16384);
    boost::system::error_code code;
    stream.expires_after(options_.patience);
    http::async_read(stream, buffer, parser,
                     [&code](boost::system::error_code result, std::size_t) { code = result; });
    run(context);
    if (code == http::error::body_limit || code == http::error::header_limit) {
      write(context, stream, {413, "text/plain", "the request is too large\n"}, false);
      return false;
    }
    if (code == http::error::end_of_stream || code) return false;

    stream.expires_never();
    const auto& message = parser.get();
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string target(message.target());
    const std::size_t question = target.find('?');
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    request.body = message.body();
    const bool keep = message.keep_alive();
    return write(context, stream, handler_(request, caller), keep) && keep;
  }

  bool write(asio::io_context& context, Stream& stream, HttpResponse answer, bool keep) {
    http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
    response.set(http::field::content_type, answer.content_type);
    response.body() = std::move(answer.body);
    response.keep_alive(keep);
    response.prepare_payload();
    boost::system::error_code code;
    stream.expires_after(options_.patience);
    http::async_write(stream, response,
                      [&code](boost::system::error_code result, std::size_t) { code = result; });
    run(context);
    return !code;
  }

  static void run(asio::io_context& context) {
    context.restart();
    context.run();
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  const Listener listener_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::list<Session> sessions_;  // Guarded by mutex_
  std::thread acceptor_thread_;  // Last: it uses all of the above
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::create(HttpServerOptions options,
                                                       HttpHandler handler) {
  DIVVY_TRY(listener, options.network ? Listener::on_network(*options.network)
                                      : Listener::on_path(options.socket, options.mode));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler), std::move(listener));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::uint16_t HttpServer::port() const { return impl_->port(); }

}  // namespace divvy::net
