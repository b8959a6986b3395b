// The machines that there are. Made once, by main; callable from any thread.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "agent/agent.h"

namespace divvy::agent {

class Agents {
 public:
  // They outlive it. The first is the machine of this process, where local callers are.
  explicit Agents(std::vector<Agent*> agents) : agents_(std::move(agents)) {}

  [[nodiscard]] const std::vector<Agent*>& all() const { return agents_; }
  [[nodiscard]] Agent& here() const { return *agents_.front(); }
  // Null: there is none of this name. Where there is one machine it is that one: it may have been
  // given another name since.
  [[nodiscard]] Agent* find(std::string_view node) const {
    for (Agent* const agent : agents_) {
      if (agent->node() == node) return agent;
    }
    return agents_.size() == 1 ? agents_.front() : nullptr;
  }

 private:
  std::vector<Agent*> agents_;
};

}  // namespace divvy::agent
