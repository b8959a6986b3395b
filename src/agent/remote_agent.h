// An agent in another process of this machine (agent_server.h), over its Unix socket. Connects
// again and again when the connection is lost; orders whose answers were lost with it are answered
// with kUnavailable, and whoever listens hears that it is away (Reachable).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "agent/order_documents.h"

namespace divvy::agent {

class RemoteAgent final : public Agent {
 public:
  // Waits so long for the first connection. kUnavailable: none; kFailedPrecondition: it speaks
  // another version of the protocol.
  [[nodiscard]] static Result<std::unique_ptr<RemoteAgent>> create(
      std::filesystem::path socket, std::chrono::milliseconds patience);
  ~RemoteAgent() override;

  [[nodiscard]] const std::string& node() const override { return node_; }
  void send(Order order, Reply reply) override;
  void listen(Listener listener) override;
  [[nodiscard]] Result<UniqueFd> open_stream(const StreamOrder& order) override;

 private:
  explicit RemoteAgent(std::filesystem::path socket);
  [[nodiscard]] Result<UniqueFd> connect();
  void run();
  // Until it is lost.
  void talk(int socket);
  [[nodiscard]] bool send_some(int socket, std::string& bytes);
  [[nodiscard]] bool hear(const Message& message);
  void lose_all();
  void tell(News news);

  std::filesystem::path socket_;
  std::string node_;
  UniqueFd bell_;
  UniqueFd first_;  // the connection that create() made
  std::mutex listener_mutex_;
  Listener listener_;  // called with the mutex held
  std::mutex mutex_;   // of what follows
  bool stopping_ = false;
  std::condition_variable changed_;
  std::deque<NumberedOrder> unsent_;
  std::map<std::uint64_t, Reply> waiting_;
  std::uint64_t last_ = 0;
  std::thread thread_;
};

}  // namespace divvy::agent
