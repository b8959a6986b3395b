#include "agent_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cstring>

#include "agent/agent_socket.h"
#include "base/log.h"
#include "sys/process.h"

extern char** environ;

namespace divvy {
namespace {

using namespace std::chrono_literals;

// The driver alone may take a while.
constexpr auto kPatience = 60s;

Status start_agent(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"divvyd"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.emplace_back("--agent");
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return err(ErrorCode::kIo, "the agent could not be started: {}", std::strerror(failed));
  }
  log_info("agent started", {{"pid", pid}});
  return {};
}

}  // namespace

std::filesystem::path agent_socket(const std::filesystem::path& run) { return run / "agent.sock"; }

Result<std::unique_ptr<agent::RemoteAgent>> find_agent(const std::filesystem::path& run,
                                                       const std::vector<std::string>& arguments) {
  auto found = agent::RemoteAgent::create(agent_socket(run), 0ms);
  if (found || found.error().code != ErrorCode::kUnavailable) return found;
  DIVVY_RETURN_IF_ERROR(start_agent(arguments));
  return agent::RemoteAgent::create(agent_socket(run), kPatience);
}

void end_agent(const std::filesystem::path& run) {
  const auto socket = agent::connect_to_agent(agent_socket(run));
  if (!socket) return;
  const auto peer = sys::peer_of(socket->get());
  if (peer && peer->pid > 0) ::kill(peer->pid, SIGTERM);
}

}  // namespace divvy
