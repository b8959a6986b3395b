// Asking an agent from a thread that may wait: those of the API. Never with a lock held.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "agent/agent.h"

namespace divvy::agent {

// kTimeout: no answer came within this time. The order may be carried out all the same.
template <typename One>
[[nodiscard]] Result<typename One::Answer> ask_and_wait(Agent& agent, One order,
                                                        std::chrono::milliseconds most) {
  using Wanted = Result<typename One::Answer>;
  const auto promise = std::make_shared<std::promise<Wanted>>();
  std::future<Wanted> answer = promise->get_future();
  ask(agent, std::move(order), [promise](Wanted wanted) { promise->set_value(std::move(wanted)); });
  if (answer.wait_for(most) != std::future_status::ready) {
    return err(ErrorCode::kTimeout, "machine {} did not answer within {} ms", agent.node(),
               most.count());
  }
  return answer.get();
}

}  // namespace divvy::agent
