// The agent of this machine as a process of its own, which goes on when the control side is killed
// or replaced. Composition for `divvyd --separate-agent`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/remote_agent.h"
#include "base/result.h"

namespace divvy {

[[nodiscard]] std::filesystem::path agent_socket(const std::filesystem::path& run);

// The one that runs, or one that is started with these arguments. Before any thread exists.
[[nodiscard]] Result<std::unique_ptr<agent::RemoteAgent>> find_agent(
    const std::filesystem::path& run, const std::vector<std::string>& arguments);

// SIGTERM to whoever serves the agent's socket.
void end_agent(const std::filesystem::path& run);

}  // namespace divvy
