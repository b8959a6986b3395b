#include "net/http_connections.h"

#include <mutex>
#include <utility>
#include <vector>

#include "net/http_line.h"

namespace divvy::net {

class HttpConnections::Impl {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  Impl(HttpConnectionsOptions options, Line::TlsContext trust)
      : options_(std::move(options)), trust_(std::move(trust)) {}

  Result<HttpResponse> request(const HttpRequest& request, Times times) {
    if (std::unique_ptr<Line> kept = take_kept()) {
      auto answer = kept->ask(request, times, {.pieces = nullptr, .keep = true});
      const bool dead =
          !answer && answer.error().code == ErrorCode::kUnavailable && !kept->answered();
      if (!dead || request.method != "GET") {
        keep(std::move(kept));
        return answer;
      }
      // The server was restarted, most probably: the others are dead as well.
      const std::lock_guard lock(mutex_);
      idle_.clear();
    }
    DIVVY_TRY(line, Line::open(options_.target, times, {}, trust_));
    auto answer = line->ask(request, times, {.pieces = nullptr, .keep = true});
    keep(std::move(line));
    return answer;
  }

  Result<HttpResponse> follow(const HttpRequest& request, Times times, const HttpPieces& pieces,
                              const std::stop_token& stop) {
    DIVVY_TRY(line, Line::open(options_.target, times, stop, trust_));
    return line->ask(request, times, {.pieces = &pieces});
  }

 private:
  struct Idle {
    std::unique_ptr<Line> line;
    Moment since;
  };

  std::unique_ptr<Line> take_kept() {
    const std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      Idle last = std::move(idle_.back());
      idle_.pop_back();
      const bool fresh = std::chrono::steady_clock::now() - last.since < options_.idle_limit;
      if (fresh && last.line->is_quiet()) return std::move(last.line);
    }
    return nullptr;
  }

  void keep(std::unique_ptr<Line> line) {
    if (!line->reusable()) return;
    const std::lock_guard lock(mutex_);
    if (idle_.size() >= options_.most_idle) idle_.erase(idle_.begin());
    if (options_.most_idle > 0)
      idle_.push_back({std::move(line), std::chrono::steady_clock::now()});
  }

  const HttpConnectionsOptions options_;
  const Line::TlsContext trust_;  // Null without TLS
  std::mutex mutex_;
  std::vector<Idle> idle_;  // Guarded; the most recent one last
};

HttpConnections::HttpConnections(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpConnections::~HttpConnections() = default;

Result<std::unique_ptr<HttpConnections>> HttpConnections::create(HttpConnectionsOptions options) {
  Line::TlsContext trust;
  if (options.target.tls) {
    DIVVY_TRY(made, client_context(*options.target.tls));
    trust = std::move(made);
  }
  return std::unique_ptr<HttpConnections>(
      new HttpConnections(std::make_unique<Impl>(std::move(options), std::move(trust))));
}

Result<HttpResponse> HttpConnections::request(const HttpRequest& request,
                                              std::optional<std::chrono::milliseconds> timeout) {
  return impl_->request(request, until(timeout));
}

Result<HttpResponse> HttpConnections::follow(const HttpRequest& request,
                                             std::optional<std::chrono::milliseconds> silence,
                                             const HttpPieces& pieces,
                                             const std::stop_token& stop) {
  return impl_->follow(request, {.deadline = {}, .step = silence}, pieces, stop);
}

}  // namespace divvy::net
