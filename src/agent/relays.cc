#include "agent/relays.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "agent/agent_socket.h"
#include "agent/relay.h"
#include "run/detached.h"
#include "run/member_folder.h"
#include "run/shepherd_client.h"
#include "run/shepherd_socket.h"

namespace divvy::agent {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kPause{5};

// kUnavailable: nobody is there, or was about to end.
Result<UniqueFd> connect_to_relay(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return err(ErrorCode::kUnavailable, "the folder of this member cannot be entered: {}",
               std::strerror(errno));
  }
  return run::connect_in(fd.get(), kRelaySocket, SOCK_STREAM, kPatience);
}

Status start_in(const std::filesystem::path& folder, const model::MemberKey& key,
                const std::vector<std::string>& command) {
  if (const auto visit = run::ShepherdClient::begin(folder); !visit) {
    if (visit.error().code != ErrorCode::kUnavailable) return err(visit.error());
    return err(ErrorCode::kFailedPrecondition, "{} does not run", to_string(key));
  }
  DIVVY_TRY(member, run::MemberFolder::open(folder));
  return run::start_detached("relay", command, member, kPatience);
}

Result<UniqueFd> ask(const std::filesystem::path& folder, const StreamOrder& order) {
  DIVVY_TRY(socket, connect_to_relay(folder));
  const Status sent = send_now(socket.get(), order);
  auto reply = sent ? receive_now(socket.get(), kPatience) : Result<Message>(err(sent.error()));
  if (!reply && reply.error().code == ErrorCode::kTimeout) {
    return err(ErrorCode::kTimeout, "the relay of {} does not answer", to_string(order.key));
  }
  if (!reply) return err(ErrorCode::kUnavailable, "{}", reply.error().message);
  const auto* const answer = std::get_if<NumberedAnswer>(&*reply);
  if (answer == nullptr) return err(ErrorCode::kInternal, "the relay did not answer");
  if (!answer->answer) return err(answer->answer.error());
  const timeval as_long_as_it_takes{};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &as_long_as_it_takes,
               sizeof as_long_as_it_takes);
  return socket;
}

}  // namespace

Status Relays::start(const StreamOrder& order) {
  const std::filesystem::path folder = folder_of_(order.key);
  {
    std::unique_lock lock(mutex_);
    if (!starting_.insert(order.key).second) {
      // Somebody does it just now; what came of it is seen by trying again.
      started_.wait(lock, [&] { return !starting_.contains(order.key); });
      return {};
    }
  }
  const Status begun = start_in(folder, order.key, command_);
  {
    const std::lock_guard lock(mutex_);
    starting_.erase(order.key);
  }
  started_.notify_all();
  return begun;
}

Result<UniqueFd> Relays::open(const StreamOrder& order) {
  const std::filesystem::path folder = folder_of_(order.key);
  const bool joins = order.kind == StreamOrder::Kind::kJoin;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto opened = ask(folder, order);
    if (opened || opened.error().code != ErrorCode::kUnavailable) return opened;
    if (joins) {
      return err(ErrorCode::kNotFound,
                 "there is no such channel into this member any more: nobody used it for too long, "
                 "or the process that kept it was ended");
    }
    if (std::chrono::steady_clock::now() > until) return opened;
    DIVVY_RETURN_IF_ERROR(start(order));
    // One that was about to end has the lock until it is gone.
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace divvy::agent
