#include <pthread.h>
#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "net/http.h"
#include "net/http_line.h"
#include "net/tunnel.h"

namespace divvy::net {
namespace {

namespace beast = boost::beast;
using ErrorNumber = boost::system::error_code;
using Protocol = boost::asio::generic::stream_protocol;

Result<HttpResponse> speak(const HttpTarget& target, const HttpRequest& request, Times times,
                           const HttpPieces* pieces) {
  DIVVY_TRY(line, Line::open(target, times));
  return line->ask(request, times, {.pieces = pieces});
}

}  // namespace

Result<HttpResponse> http_request(const HttpTarget& target, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  return speak(target, request, until(timeout), nullptr);
}

Result<HttpResponse> http_request(const std::filesystem::path& socket, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  return http_request(HttpTarget{.socket = socket}, request, timeout);
}

Result<HttpResponse> http_request(const TcpAddress& server, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  return http_request(HttpTarget{.socket = {}, .network = server}, request, timeout);
}

Result<HttpResponse> http_follow(const HttpTarget& target, const HttpRequest& request,
                                 std::optional<std::chrono::milliseconds> silence,
                                 const HttpPieces& pieces) {
  return speak(target, request, {.deadline = {}, .step = silence}, &pieces);
}

class HttpTunnel::Impl {
 public:
  Impl(std::unique_ptr<Line> line, beast::flat_buffer rest, bool web, TunnelOf of, UniqueFd ours,
       UniqueFd callers)
      : line_(std::move(line)),
        rest_(std::move(rest)),
        web_(web),
        of_(of),
        local_(line_->context(), Protocol(AF_UNIX, 0), ours.release()),
        callers_(std::move(callers)) {
    line_->context().restart();
    // Signals are for the caller's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Impl() {
    // As something to do, because it may not run yet, and begins with a restart.
    boost::asio::post(line_->context(), [this] { line_->context().stop(); });
    thread_.join();
  }
  [[nodiscard]] int fd() const { return callers_.get(); }

 private:
  void run() {
    if (web_) return line_->carry(local_, of_ == TunnelOf::kMessages);
    line_->with_stream([this](auto& stream) { pass(stream); });
  }
  template <typename Stream>
  void pass(Stream& stream) {
    Tunnel<Stream> both(stream, local_, rest_, {});
    both.start();
    line_->context().run();
    // Whoever reads there sees the end, however it came.
    ErrorNumber ignored;
    ignored = local_.close(ignored);
    beast::get_lowest_layer(stream).close();
    // Stopped, it still has what would use the tunnel.
    line_->context().restart();
    line_->context().run();
  }

  std::unique_ptr<Line> line_;
  beast::flat_buffer rest_;
  const bool web_;
  const TunnelOf of_;
  Protocol::socket local_;
  UniqueFd callers_;
  std::thread thread_;
};

HttpTunnel::HttpTunnel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpTunnel::~HttpTunnel() = default;
int HttpTunnel::fd() const { return impl_->fd(); }

Result<HttpUpgrade> http_upgrade(const HttpTarget& target, const HttpRequest& request,
                                 std::optional<std::chrono::milliseconds> timeout, TunnelOf of) {
  const Times times = until(timeout);
  DIVVY_TRY(line, Line::open(target, times));
  const bool web = request.header("upgrade") == "websocket";
  DIVVY_TRY(answer, web ? line->open_websocket(request, times) : line->ask(request, times, {}));
  HttpUpgrade made{std::move(answer), nullptr};
  if (made.answer.status != 101) return made;
  int ends[2];
  const int kind = of == TunnelOf::kMessages ? SOCK_SEQPACKET : SOCK_STREAM;
  if (::socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  }
  beast::flat_buffer rest = line->take_rest();
  try {
    made.tunnel = std::make_unique<HttpTunnel>(std::make_unique<HttpTunnel::Impl>(
        std::move(line), std::move(rest), web, of, UniqueFd(ends[0]), UniqueFd(ends[1])));
  } catch (const std::exception& error) {
    return err(ErrorCode::kResourceExhausted, "no tunnel: {}", error.what());
  }
  return made;
}

}  // namespace divvy::net
