#include "agent/relay.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "agent/agent_socket.h"

namespace divvy::agent {
namespace {

using std::chrono::milliseconds;

// Who connects says at once what for.
constexpr milliseconds kFirstWord{2'000};
// What may be asked for; whoever asks may be of another version.
constexpr milliseconds kShortest{1};
constexpr milliseconds kLongest = std::chrono::hours(24);
// More names than that are not remembered; who comes back then is told something less exact.
constexpr std::size_t kMostExpired = 4096;

}  // namespace

Relay::Relay(UniqueFd listener, Options options)
    : listener_(std::move(listener)),
      options_(std::move(options)),
      streams_([folder = options_.folder](const model::MemberKey&) { return folder; },
               options_.most),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      last_used_(options_.now()) {}

template <typename Step>
void Relay::guard(Held& held, const Step& step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    // The limit of this process (relay_process.cc). The others go on.
    held.pump.channel().fail("too many bytes are kept for this member");
    held.pump.carry({});
  }
}

void Relay::run() {
  for (;;) {
    const Time now = options_.now();
    remove_ended(now);
    const int left = time_left(now);
    if ((left == 0 && channels_.empty()) || folder_is_gone()) break;
    std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}};
    for (auto& [name, held] : channels_) {
      held.waits = {{-1, 0, 0}, {-1, 0, 0}};
      guard(held, [&held] { held.waits = held.pump.waits(); });
      waits.push_back(held.waits.local);
      waits.push_back(held.waits.connection);
    }
    if (::poll(waits.data(), waits.size(), left) < 0 && errno != EINTR) break;
    std::size_t at = 1;
    for (auto& [name, held] : channels_) {
      held.waits.local.revents = waits[at++].revents;
      held.waits.connection.revents = waits[at++].revents;
      if (held.waits.local.revents == 0 && held.waits.connection.revents == 0) continue;
      guard(held, [&held] { held.pump.step(held.waits); });
    }
    if ((waits[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) break;  // it was shut down
    if (waits[0].revents != 0) accept_all();
  }
  // Who stands in its queue is hung up on, and starts the next one.
  listener_.reset();
}

int Relay::time_left(Time now) const {
  const auto until = [now](Time when) {
    const auto left = std::chrono::ceil<milliseconds>(when - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
  };
  if (channels_.empty()) return until(last_used_ + options_.idle);
  int left = -1;
  for (const auto& [name, held] : channels_) {
    if (!held.lost) continue;
    int its = until(*held.lost + held.keep);
    if (options_.folder_fd >= 0) its = std::min(its, static_cast<int>(options_.look.count()));
    left = left < 0 ? its : std::min(left, its);
  }
  return left;
}

bool Relay::folder_is_gone() const {
  struct stat info{};
  return options_.folder_fd >= 0 && ::fstat(options_.folder_fd, &info) == 0 && info.st_nlink == 0;
}

void Relay::remove_ended(Time now) {
  for (auto one = channels_.begin(); one != channels_.end();) {
    Held& held = one->second;
    if (held.pump.channel().failure()) held.pump.close_local();
    if (held.pump.is_carried()) {
      held.lost.reset();
    } else if (!held.lost) {
      held.lost = now;
    }
    const bool expired = held.lost && now - *held.lost >= held.keep;
    if (expired && expired_.size() < kMostExpired) expired_.emplace(one->first, held.keep);
    one = expired || held.pump.channel().heard_goodbye() ? channels_.erase(one) : std::next(one);
  }
  if (!channels_.empty()) last_used_ = now;
}

void Relay::accept_all() {
  for (;;) {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection && (errno == EMFILE || errno == ENFILE) && spare_) {
      // Otherwise it would be asked for again at once, and for ever.
      spare_.reset();
      connection = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      connection.reset();
      spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      continue;
    }
    if (!connection) return;
    try {
      if (is_ours(connection.get())) greet(std::move(connection));
    } catch (const std::bad_alloc&) {
      // As above: it is hung up on.
      continue;
    }
  }
}

void Relay::greet(UniqueFd connection) {
  const auto first = receive_now(connection.get(), kFirstWord);
  const auto* const order = first ? std::get_if<StreamOrder>(&*first) : nullptr;
  if (order == nullptr) return;
  last_used_ = options_.now();
  NumberedAnswer answer{0, Answer(Done{})};
  if (order->kind != StreamOrder::Kind::kJoin) {
    if (const Status opened = open(*order); !opened) answer.answer = err(opened.error());
    (void)send_now(connection.get(), answer);
    return;
  }
  const auto found = find(*order);
  if (!found) answer.answer = err(found.error());
  if (!send_now(connection.get(), answer) || !found) return;
  (*found)->pump.carry(std::move(connection));
  (*found)->pump.flush();
}

Status Relay::open(const StreamOrder& order) {
  // The answer to the first try was lost on its way, and this is the second one.
  if (channels_.contains(order.channel)) return {};
  if (channels_.size() >= options_.most) {
    return err(ErrorCode::kResourceExhausted,
               "{} channels into this member are open already; close some", options_.most);
  }
  UniqueFd local;
  sys::ChannelPump::Options options;
  if (order.kind == StreamOrder::Kind::kPort) {
    DIVVY_TRY(connection, connect_to(order.port));
    local = std::move(connection.socket);
    options.may_begin = std::move(connection.is_to_member);
  } else {
    DIVVY_TRY(stream, streams_.open(order));
    local = std::move(stream);
    options.ends_at_once = true;
  }
  channels_.try_emplace(
      order.channel, std::move(local), std::move(options),
      std::clamp<milliseconds>(std::chrono::duration_cast<milliseconds>(order.keep), kShortest,
                               kLongest));
  return {};
}

Result<PortConnection> Relay::connect_to(std::uint16_t port) const {
  const auto is_ours_or_roots = [](uid_t uid) { return uid == ::geteuid() || uid == 0; };
  const IsOfMember is_of_member =
      options_.is_of_member ? options_.is_of_member : IsOfMember(is_ours_or_roots);
  if (!options_.port_on_machine) return connect_to_port(port, is_of_member);
  DIVVY_TRY(on_machine, options_.port_on_machine(port));
  return connect_to_port(on_machine, is_of_member);
}

Result<Relay::Held*> Relay::find(const StreamOrder& order) {
  const auto found = channels_.find(order.channel);
  if (found != channels_.end()) return &found->second;
  if (const auto late = expired_.find(order.channel); late != expired_.end()) {
    return err(ErrorCode::kNotFound,
               "nobody came back to this channel for {} seconds, so it was closed, with what was "
               "started through it",
               std::chrono::duration_cast<std::chrono::seconds>(late->second).count());
  }
  return err(ErrorCode::kNotFound, "there is no such channel into this member any more");
}

}  // namespace divvy::agent
