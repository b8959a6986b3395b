// Lets a control side in another process use an agent of this one, over a Unix socket. One control
// side at a time gives orders: a new one takes the place of the one before, which is probably gone.
// What that one had granted or started is finished before the new one is heard: it looks at what
// there is, and nothing of before comes after that.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

class AgentServer {
 public:
  // `agent` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<AgentServer>> create(
      Agent& agent, const std::filesystem::path& socket, std::string version);
  ~AgentServer();
  AgentServer(const AgentServer&) = delete;
  AgentServer& operator=(const AgentServer&) = delete;

 private:
  // A control side that gives orders, for as long as it is connected.
  struct Control;
  class Changes;
  AgentServer(Agent& agent, UniqueFd listener, std::string version);
  void accept();
  void serve(std::size_t number, int socket);
  void serve_orders(int socket);
  static void send_queued(Control& control);

  Agent& agent_;
  std::string version_;
  UniqueFd listener_;
  UniqueFd bell_;     // it ends
  std::mutex mutex_;  // of what follows
  bool stopping_ = false;
  std::shared_ptr<Control> control_;
  std::shared_ptr<Changes> changes_;
  struct Connection {
    UniqueFd socket;
    std::thread thread;
    bool over = false;
  };
  std::map<std::size_t, Connection> connections_;
  std::size_t next_ = 0;
  std::thread thread_;
};

}  // namespace divvy::agent
