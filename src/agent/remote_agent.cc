#include "agent/remote_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "agent/agent_socket.h"
#include "agent/message_buffer.h"
#include "base/log.h"

namespace divvy::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstWord = 10s;
constexpr auto kPause = 50ms;

}  // namespace

RemoteAgent::RemoteAgent(std::filesystem::path socket)
    : socket_(std::move(socket)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// With its greeting heard.
Result<UniqueFd> RemoteAgent::connect() {
  DIVVY_TRY(socket, connect_to_agent(socket_));
  DIVVY_TRY(first, receive_now(socket.get(), kFirstWord));
  const auto* const hello = std::get_if<Hello>(&first);
  if (hello == nullptr || hello->protocol != kAgentProtocol) {
    return err(ErrorCode::kFailedPrecondition,
               "the agent at {} speaks another version; install the same Divvy for both",
               socket_.string());
  }
  if (node_.empty()) node_ = hello->node;
  if (node_ != hello->node) {
    return err(ErrorCode::kFailedPrecondition, "the agent at {} is of machine {}, not of {}",
               socket_.string(), hello->node, node_);
  }
  return socket;
}

Result<std::unique_ptr<RemoteAgent>> RemoteAgent::create(std::filesystem::path socket,
                                                         std::chrono::milliseconds patience) {
  std::unique_ptr<RemoteAgent> made(new RemoteAgent(std::move(socket)));
  if (!made->bell_) return err(ErrorCode::kIo, "no event descriptor");
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto connected = made->connect();
    if (connected) {
      made->first_ = *std::move(connected);
      break;
    }
    if (connected.error().code != ErrorCode::kUnavailable ||
        std::chrono::steady_clock::now() >= until) {
      return err(connected.error());
    }
    std::this_thread::sleep_for(kPause);
  }
  made->thread_ = std::thread([agent = made.get()] { agent->run(); });
  return made;
}

RemoteAgent::~RemoteAgent() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  (void)eventfd_write(bell_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void RemoteAgent::send(Order order, Reply reply) {
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = ++last_;
    waiting_.emplace(number, std::move(reply));
    unsent_.push_back({number, std::move(order)});
  }
  (void)eventfd_write(bell_.get(), 1);
}

void RemoteAgent::listen(Listener listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void RemoteAgent::tell(News news) {
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_(std::move(news));
}

Result<UniqueFd> RemoteAgent::open_stream(const StreamOrder& order) {
  DIVVY_TRY(socket, connect_to_agent(socket_));
  DIVVY_RETURN_IF_ERROR(receive_now(socket.get(), kFirstWord));
  DIVVY_RETURN_IF_ERROR(send_now(socket.get(), order));
  DIVVY_TRY(reply, receive_now(socket.get(), kFirstWord * 6));
  const auto* const answer = std::get_if<NumberedAnswer>(&reply);
  if (answer == nullptr) return err(ErrorCode::kInternal, "the agent did not answer");
  if (!answer->answer) return err(answer->answer.error());
  return socket;
}

void RemoteAgent::run() {
  for (bool first = true;; first = false) {
    UniqueFd socket = first ? std::move(first_) : UniqueFd();
    while (!socket) {
      auto again = connect();
      if (again) {
        socket = *std::move(again);
        break;
      }
      lose_all();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kPause, [this] { return stopping_; });
      if (stopping_) break;
    }
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    if (!send_now(socket.get(), Orders{})) continue;
    if (!first) tell(Reachable{true});
    talk(socket.get());
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    log_warning("agent lost", {{"node", node_}});
    tell(Reachable{false});
    lose_all();
  }
  lose_all();
}

void RemoteAgent::talk(int socket) {
  std::string incoming;
  std::string outgoing;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (const NumberedOrder& order : unsent_) append_message(outgoing, write_message(order));
      unsent_.clear();
    }
    if (!send_some(socket, outgoing)) return;
    pollfd waits[] = {{socket, static_cast<short>(outgoing.empty() ? POLLIN : POLLIN | POLLOUT), 0},
                      {bell_.get(), POLLIN, 0}};
    ::poll(waits, 2, -1);
    eventfd_t rung = 0;
    (void)eventfd_read(bell_.get(), &rung);
    char piece[65536];
    const ssize_t got = ::recv(socket, piece, sizeof piece, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (got > 0) incoming.append(piece, static_cast<std::size_t>(got));
    for (;;) {
      const auto text = take_message(incoming);
      if (text && !*text) break;
      const auto message = text ? read_message(**text) : Result<Message>(err(text.error()));
      if (!message || !hear(*message)) {
        log_error("agent says what is not understood", {{"node", node_}});
        return;
      }
    }
  }
}

bool RemoteAgent::send_some(int socket, std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return true;
    if (sent <= 0) return false;
    bytes.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

bool RemoteAgent::hear(const Message& message) {
  if (const auto* news = std::get_if<News>(&message)) {
    tell(*news);
    return true;
  }
  const auto* const answer = std::get_if<NumberedAnswer>(&message);
  if (answer == nullptr) return false;
  Reply reply;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(answer->number);
    // Answered before: once is enough.
    if (found == waiting_.end()) return true;
    reply = std::move(found->second);
    waiting_.erase(found);
  }
  reply(answer->answer);
  return true;
}

void RemoteAgent::lose_all() {
  std::map<std::uint64_t, Reply> lost;
  {
    const std::lock_guard lock(mutex_);
    lost.swap(waiting_);
    unsent_.clear();
  }
  for (const auto& [number, reply] : lost) {
    reply(err(ErrorCode::kUnavailable, "machine {} does not answer", node_));
  }
}

}  // namespace divvy::agent
