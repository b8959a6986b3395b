#include "agent/agent_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <utility>

#include "agent/agent_socket.h"
#include "agent/message_buffer.h"
#include "agent/order_documents.h"
#include "base/log.h"
#include "sys/byte_pump.h"

namespace divvy::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstWord = 10s;
// A start waits for its shepherd, and that for podman. Longer ones are stuck, and found by name.
constexpr auto kLongestStart = 45s;

// Carried out late, it would change what the next control side has found or made.
bool changes_members(const Order& order) {
  return std::holds_alternative<GrantOrder>(order) || std::holds_alternative<StartOrder>(order) ||
         std::holds_alternative<ReleaseOrder>(order) || std::holds_alternative<AdoptOrder>(order);
}

}  // namespace

// Such orders that are being carried out, whoever has given them.
class AgentServer::Changes {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void done() {
    const std::lock_guard lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, kLongestStart, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

struct AgentServer::Control {
  explicit Control(int socket_) : socket(socket_), bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  // From any thread.
  void say(const Message& message) {
    {
      const std::lock_guard lock(mutex);
      if (over) return;
      append_message(outgoing, write_message(message));
    }
    (void)eventfd_write(bell.get(), 1);
  }

  int socket;
  UniqueFd bell;  // there is something to send
  std::mutex mutex;
  bool over = false;
  std::string outgoing;
};

AgentServer::AgentServer(Agent& agent, UniqueFd listener, std::string version)
    : agent_(agent),
      version_(std::move(version)),
      listener_(std::move(listener)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      changes_(std::make_shared<Changes>()) {}

Result<std::unique_ptr<AgentServer>> AgentServer::create(Agent& agent,
                                                         const std::filesystem::path& socket,
                                                         std::string version) {
  DIVVY_TRY(listener, listen_for_control(socket));
  std::unique_ptr<AgentServer> made(
      new AgentServer(agent, std::move(listener), std::move(version)));
  if (!made->bell_) return err(ErrorCode::kIo, "no event descriptor");
  agent.listen([server = made.get()](const News& news) {
    std::shared_ptr<Control> control;
    {
      const std::lock_guard lock(server->mutex_);
      control = server->control_;
    }
    if (control) control->say(news);
  });
  made->thread_ = std::thread([server = made.get()] { server->accept(); });
  return made;
}

AgentServer::~AgentServer() {
  agent_.listen({});
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [number, connection] : connections_) {
      ::shutdown(connection.socket.get(), SHUT_RDWR);
    }
  }
  (void)eventfd_write(bell_.get(), 1);
  thread_.join();
  for (auto& [number, connection] : connections_) connection.thread.join();
}

void AgentServer::accept() {
  for (;;) {
    pollfd waits[] = {{listener_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}};
    ::poll(waits, 2, -1);
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    std::vector<std::thread> ended;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (auto it = connections_.begin(); it != connections_.end();) {
        if (it->second.over) ended.push_back(std::move(it->second.thread));
        it = it->second.over ? connections_.erase(it) : std::next(it);
      }
      if (socket && is_ours(socket.get())) {
        const std::size_t number = next_++;
        const int fd = socket.get();
        Connection& connection = connections_[number];
        connection.socket = std::move(socket);
        connection.thread = std::thread([this, number, fd] { serve(number, fd); });
      }
    }
    for (std::thread& thread : ended) thread.join();
  }
}

void AgentServer::serve(std::size_t number, int socket) {
  const Status greeted = send_now(socket, Hello{kAgentProtocol, agent_.node(), version_});
  const Result<Message> first =
      greeted ? receive_now(socket, kFirstWord) : Result<Message>(err(greeted.error()));
  if (first && std::holds_alternative<Orders>(*first)) {
    serve_orders(socket);
  } else if (const auto* order = first ? std::get_if<StreamOrder>(&*first) : nullptr) {
    auto stream = agent_.open_stream(*order);
    NumberedAnswer answer{0, Answer(Done{})};
    if (!stream) answer.answer = err(stream.error());
    if (send_now(socket, answer) && stream) sys::pump_bytes(socket, stream->get());
  }
  const std::lock_guard lock(mutex_);
  // The number of the descriptor may be another's as soon as it is closed.
  connections_.at(number).socket.reset();
  connections_.at(number).over = true;
}

void AgentServer::send_queued(Control& control) {
  const std::lock_guard lock(control.mutex);
  while (!control.outgoing.empty()) {
    const ssize_t sent = ::send(control.socket, control.outgoing.data(), control.outgoing.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    control.outgoing.erase(0, static_cast<std::size_t>(sent));
  }
}

void AgentServer::serve_orders(int socket) {
  const auto control = std::make_shared<Control>(socket);
  {
    const std::lock_guard lock(mutex_);
    if (control_) {
      ::shutdown(control_->socket, SHUT_RDWR);
      const std::lock_guard over(control_->mutex);
      control_->over = true;
    }
    control_ = control;
  }
  changes_->wait_for_all();
  log_info("control side connected", {});
  std::string incoming;
  for (bool open = true; open;) {
    bool full = false;
    {
      const std::lock_guard lock(control->mutex);
      full = !control->outgoing.empty();
    }
    pollfd waits[] = {{socket, static_cast<short>(full ? POLLIN | POLLOUT : POLLIN), 0},
                      {control->bell.get(), POLLIN, 0}};
    ::poll(waits, 2, -1);
    eventfd_t rung = 0;
    (void)eventfd_read(control->bell.get(), &rung);
    send_queued(*control);
    char piece[65536];
    const ssize_t got = ::recv(socket, piece, sizeof piece, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (got > 0) incoming.append(piece, static_cast<std::size_t>(got));
    while (open) {
      auto text = take_message(incoming);
      if (text && !*text) break;
      const auto message = text ? read_message(**text) : Result<Message>(err(text.error()));
      const auto* const order = message ? std::get_if<NumberedOrder>(&*message) : nullptr;
      if (order == nullptr) {
        log_error("control side says what is not understood", {});
        open = false;
        break;
      }
      const auto counted = changes_members(order->order) ? changes_ : nullptr;
      {
        // Under one lock: whoever takes over waits for it, or it is not carried out.
        const std::lock_guard lock(control->mutex);
        if (control->over) {
          open = false;  // Somebody else gives the orders by now.
          break;
        }
        if (counted) counted->add();
      }
      agent_.send(order->order, [control, counted, number = order->number](Result<Answer> answer) {
        if (counted) counted->done();
        control->say(NumberedAnswer{number, std::move(answer)});
      });
    }
  }
  {
    const std::lock_guard lock(control->mutex);
    control->over = true;
  }
  const std::lock_guard lock(mutex_);
  if (control_ == control) control_.reset();
  log_info("control side gone", {});
}

}  // namespace divvy::agent
