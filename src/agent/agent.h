// One machine, seen from the control side: everything that is done there goes through one of these
// (orders.h has the messages). Implementations: local_agent.h for the machine of this process,
// remote_agent.h for one in another process, fake_agent.h for tests.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "agent/orders.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

class Agent {
 public:
  using Reply = std::function<void(Result<Answer>)>;
  using Listener = std::function<void(News)>;

  virtual ~Agent() = default;

  // The machine's name: that of MachineState::node.
  [[nodiscard]] virtual const std::string& node() const = 0;

  // Returns at once. The reply comes once, from any thread, never before this has returned; with
  // kUnavailable where the machine cannot be reached. It may take as long as the work takes: what
  // depends on a stuck process waits for it and holds up nothing else. Not any more after the
  // destructor has returned.
  virtual void send(Order order, Reply reply) = 0;

  // Called from any thread with what happens, one at a time. An empty one: nobody is called any
  // more when this returns.
  virtual void listen(Listener listener) = 0;

  // A connected socket. May wait for the member's shepherd, some seconds at most.
  [[nodiscard]] virtual Result<UniqueFd> open_stream(const StreamOrder& order) = 0;
};

// The same with the answer's own type.
template <typename One>
void ask(Agent& agent, One order, std::function<void(Result<typename One::Answer>)> reply) {
  using Wanted = typename One::Answer;
  agent.send(Order(std::move(order)), [reply = std::move(reply)](Result<Answer> answer) {
    if (!answer) return reply(err(std::move(answer).error()));
    if (Wanted* const wanted = std::get_if<Wanted>(&*answer)) return reply(std::move(*wanted));
    reply(err(ErrorCode::kInternal, "the agent answered something else than was asked"));
  });
}

}  // namespace divvy::agent
