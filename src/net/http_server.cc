#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "net/http.h"
#include "net/http_connection.h"
#include "net/listener.h"

namespace divvy::net {

class HttpServer::Impl {
 public:
  using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

  Impl(HttpServerOptions options, HttpHandler handler, Listener listener, TlsContext tls)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        listener_(std::move(listener)),
        tls_(std::move(tls)),
        rate_(options_.max_rate),
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

  [[nodiscard]] Status reload_tls() {
    if (!options_.tls) return {};
    DIVVY_TRY(fresh, server_context(*options_.tls));
    const std::lock_guard lock(mutex_);
    tls_ = std::move(fresh);
    return {};
  }

 private:
  struct Session {
    std::thread thread;
    int socket = -1;
    std::string who;
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
      const auto caller = caller_of(*accepted, listener_.network());
      if (!caller) {
        ::close(*accepted);
        continue;
      }
      const std::lock_guard lock(mutex_);
      remove_finished();
      if (sessions_.size() >= places_for(*caller)) {
        refuse(*accepted, "503 Service Unavailable");
      } else if (is_one_too_many(caller->who())) {
        refuse(*accepted, "429 Too Many Requests");
      } else {
        start(*accepted, *caller);
      }
    }
  }

  // However many users come together, those who can end it get in.
  [[nodiscard]] std::size_t places_for(const Caller& caller) const {
    const bool operates = caller.local() && (caller.uid() == 0 || caller.uid() == ::geteuid());
    return options_.max_connections + (operates ? options_.max_for_operators : 0);
  }

  [[nodiscard]] bool is_one_too_many(const std::string& who) const {
    const auto theirs = connections_.find(who);
    return options_.max_per_caller > 0 && theirs != connections_.end() &&
           theirs->second >= options_.max_per_caller;
  }

  void start(int fd, const Caller& caller) {
    Session& session = sessions_.emplace_back();
    session.socket = fd;
    session.who = caller.who();
    try {
      session.thread = std::thread([this, fd, caller, tls = tls_, &session] {
        serve_connection(fd, caller, tls, {options_, handler_, stopping_, rate_, streams_});
        finish(session, fd);
      });
    } catch (const std::system_error& error) {
      log_warning("connection not served", {{"reason", error.what()}});
      sessions_.pop_back();
      refuse(fd, "503 Service Unavailable");
      return;
    }
    ++connections_[session.who];
  }

  static void wait_for_a_session_to_end() {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  // Inside TLS nobody hears it, and sees the end.
  void refuse(int fd, std::string_view status) const {
    const std::string busy = fmt::format(
        "HTTP/1.1 {}\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n", status);
    if (!options_.tls) (void)::send(fd, busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
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
    const auto mine = connections_.find(session.who);
    if (--mine->second == 0) connections_.erase(mine);
    session.done = true;
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  const Listener listener_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // Guards the three below
  TlsContext tls_;    // Of connections to come; null without TLS
  std::list<Session> sessions_;
  std::map<std::string, std::size_t> connections_;  // By caller
  RateLimit rate_;
  std::atomic<std::size_t> streams_{0};
  std::thread acceptor_thread_;  // Last: it uses all of the above
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::create(HttpServerOptions options,
                                                       HttpHandler handler) {
  Impl::TlsContext tls;
  if (options.tls) {
    DIVVY_TRY(context, server_context(*options.tls));
    tls = std::move(context);
  }
  DIVVY_TRY(listener, options.network ? Listener::on_network(*options.network)
                                      : Listener::on_path(options.socket, options.mode));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler), std::move(listener),
                                     std::move(tls));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::uint16_t HttpServer::port() const { return impl_->port(); }

Status HttpServer::reload_tls() { return impl_->reload_tls(); }

}  // namespace divvy::net
