#include "cli/kube_answers.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/unique_fd.h"

namespace divvy::cli {
namespace {

void split_query(net::HttpRequest& request) {
  const std::size_t question = request.path.find('?');
  if (question == std::string::npos) return;
  request.query = request.path.substr(question + 1);
  request.path.resize(question);
}

// Two ends: what answers waits on one of them for its caller to hang up, which is done by closing
// the other.
struct Line {
  UniqueFd caller;
  UniqueFd answerer;
};

Result<Line> make_line() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  }
  return Line{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

net::Caller caller_on(int socket) { return {socket, ::getpid(), ::geteuid(), ::getegid()}; }

// One piece on its way from the thread that makes the answer to the one that shows it.
class Stream final : public net::HttpStream {
 public:
  explicit Stream(const net::Caller& caller) : caller_(caller) {}

  [[nodiscard]] bool send(std::string_view piece) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_ || !piece_; });
    if (over_) return false;
    piece_ = piece;
    changed_.notify_all();
    return true;
  }
  [[nodiscard]] const net::Caller& caller() const override { return caller_; }

  // Nothing: the answer is whole.
  [[nodiscard]] Result<std::optional<std::string>> next(
      std::optional<std::chrono::milliseconds> silence) {
    std::unique_lock lock(mutex_);
    const auto there = [this] { return ended_ || piece_.has_value(); };
    if (!silence) {
      changed_.wait(lock, there);
    } else if (!changed_.wait_for(lock, *silence, there)) {
      return err(ErrorCode::kTimeout, "nothing came for {} ms", silence->count());
    }
    auto piece = std::exchange(piece_, std::nullopt);
    changed_.notify_all();
    return piece;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  void hang_up() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  const net::Caller& caller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> piece_;
  bool ended_ = false;
  bool over_ = false;
};

}  // namespace

Result<Reply> ask_here(const net::HttpHandler& handler, net::HttpRequest request) {
  split_query(request);
  DIVVY_TRY(line, make_line());
  net::HttpResponse response = handler(request, caller_on(line.answerer.get()));
  return Reply{response.status, std::move(response.body)};
}

Result<Reply> upgrade_here(const net::HttpHandler& handler, net::HttpRequest request,
                           UniqueFd& socket) {
  split_query(request);
  DIVVY_TRY(line, make_line());
  net::HttpResponse response = handler(request, caller_on(line.answerer.get()));
  if (response.upgrade) response = response.upgrade(socket);
  return Reply{response.status, std::move(response.body)};
}

Result<Reply> follow_here(const net::HttpHandler& handler, net::HttpRequest request,
                          std::optional<std::chrono::milliseconds> silence,
                          const net::HttpPieces& pieces) {
  split_query(request);
  DIVVY_TRY(line, make_line());
  const net::Caller caller = caller_on(line.answerer.get());
  net::HttpResponse response = handler(request, caller);
  if (!response.stream) {
    if (response.status != 200) return Reply{response.status, std::move(response.body)};
    if (!response.body.empty()) static_cast<void>(pieces(response.body));
    return Reply{response.status, {}};
  }
  Stream stream(caller);
  std::thread answerer([&] {
    response.stream(stream);
    stream.end();
  });
  Result<Reply> reply = Reply{response.status, {}};
  for (;;) {
    const auto piece = stream.next(silence);
    if (!piece) reply = err(piece.error());
    if (!piece || !*piece || !pieces(**piece)) break;
  }
  stream.hang_up();
  line.caller.reset();
  answerer.join();
  return reply;
}

}  // namespace divvy::cli
