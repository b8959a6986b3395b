#include "cli/member_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "sys/channel_pump.h"

namespace divvy::cli {
namespace {

using std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;

constexpr milliseconds kShortestPause{10};
constexpr milliseconds kLongestPause{1'000};
constexpr milliseconds kAnswer{10'000};
constexpr milliseconds kPauseBeforeOpening{200};
constexpr std::chrono::minutes kUsuallyKept{10};
constexpr std::chrono::seconds kLongestKept{std::chrono::hours(24)};
// For the other end to hear that it is over; it finds out by itself, too, but late.
constexpr milliseconds kFarewell{1'000};

bool is_temporary(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

void ring(const UniqueFd& bell) {
  const std::uint64_t one = 1;
  (void)!::write(bell.get(), &one, sizeof one);
}

class Carrier {
 public:
  Carrier(const Carrying& carrying, UniqueFd local)
      : carrying_(carrying), pump_(std::move(local), {}) {}

  Status run() {
    for (;;) {
      if (!pump_.is_carried()) {
        DIVVY_TRY(joined, join());
        if (!joined) return {};  // stopped
      }
      sys::ChannelPump::Waits waits = pump_.waits();
      pollfd all[] = {waits.local, waits.connection, {carrying_.stop, POLLIN, 0}};
      if (::poll(all, 3, -1) < 0 && errno != EINTR) {
        return err(ErrorCode::kIo, "nothing can be waited for: {}", std::strerror(errno));
      }
      waits.local.revents = all[0].revents;
      waits.connection.revents = all[1].revents;
      pump_.step(waits);
      const auto& failure = pump_.channel().failure();
      if (failure) pump_.close_local();
      if (failure || pump_.channel().is_finished() || all[2].revents != 0) {
        say_goodbye();
        if (failure) return err(ErrorCode::kUnavailable, "{}", *failure);
        return {};
      }
    }
  }

 private:
  // False: somebody said that it is enough.
  Result<bool> join() {
    tunnel_.reset();
    const Time lost = std::chrono::steady_clock::now();
    bool told = false;
    for (milliseconds pause = kShortestPause;; pause = std::min(2 * pause, kLongestPause)) {
      auto made = carrying_.daemon.upgrade(
          {.method = "GET",
           .path = fmt::format("/v1/jobs/{}/channels?channel={}&rank={}", carrying_.place.job,
                               carrying_.name, carrying_.place.rank),
           .timeout = kAnswer},
          "websocket");
      if (made && made->tunnel != nullptr) {
        tunnel_ = std::move(made->tunnel);
        pump_.carry(UniqueFd(::fcntl(tunnel_->fd(), F_DUPFD_CLOEXEC, 0)));
        if (told) carrying_.on_loss(false);
        return true;
      }
      const bool later = may_work_later(made ? Result<Reply>(made->reply) : err(made.error()));
      const bool too_late = std::chrono::steady_clock::now() - lost > carrying_.patience;
      if (!later || too_late) {
        pump_.close_local();
        const std::string why = made ? problem_text(made->reply) : made.error().message;
        if (!later)
          return err(ErrorCode::kUnavailable, "the connection to the job is lost: {}", why);
        return err(ErrorCode::kTimeout,
                   "the connection to the job is lost: there was no way to it for {} seconds ({})",
                   std::chrono::duration_cast<std::chrono::seconds>(carrying_.patience).count(),
                   why);
      }
      if (!told && carrying_.on_loss &&
          std::chrono::steady_clock::now() - lost >= carrying_.quiet) {
        told = true;
        carrying_.on_loss(true);
      }
      pollfd stop{carrying_.stop, POLLIN, 0};
      if (::poll(&stop, 1, static_cast<int>(pause.count())) == 1) return false;
    }
  }

  void say_goodbye() {
    pump_.channel().say_goodbye();
    const Time until = std::chrono::steady_clock::now() + kFarewell;
    // The other end hangs up when it has heard it.
    while (pump_.is_carried()) {
      pump_.flush();
      const auto left =
          std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0 || !pump_.is_carried()) return;
      sys::ChannelPump::Waits waits = pump_.waits();
      waits.local.fd = -1;
      (void)::poll(&waits.connection, 1, static_cast<int>(left));
      pump_.step(waits);
    }
  }

  const Carrying& carrying_;
  std::unique_ptr<net::HttpTunnel> tunnel_;
  sys::ChannelPump pump_;
};

}  // namespace

std::string new_channel_name() {
  std::array<unsigned char, 32> bytes{};
  DIVVY_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string name;
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

Result<Reply> open_channel(const Daemon& daemon, const MemberPlace& place, const std::string& name,
                           boost::json::object request) {
  request["rank"] = place.rank;
  request["channel"] = name;
  return daemon.ask("POST", fmt::format("/v1/jobs/{}/channels", place.job),
                    boost::json::serialize(request));
}

Result<Daemon::Upgraded> open_in_pod(const Daemon& daemon, const MemberPlace& place,
                                     const std::string& name, boost::json::object request) {
  request["rank"] = place.rank;
  request["channel"] = name;
  return daemon.upgrade({.method = "POST",
                         .path = fmt::format("/v1/jobs/{}/channels", place.job),
                         .body = boost::json::serialize(request)},
                        "divvy-frames");
}

Result<std::optional<Reply>> open_channel_patiently(const Daemon& daemon, const MemberPlace& place,
                                                    const std::string& name,
                                                    const boost::json::object& request,
                                                    milliseconds patience, int stop) {
  const Time until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto opened = open_channel(daemon, place, name, request);
    pollfd wait{stop, POLLIN, 0};
    const bool in_time = std::chrono::steady_clock::now() < until;
    if (!may_work_later(opened) || !in_time) {
      if (!opened) return err(std::move(opened).error());
      return std::optional(*std::move(opened));
    }
    if (::poll(&wait, 1, static_cast<int>(kPauseBeforeOpening.count())) != 0) {
      return std::optional<Reply>();
    }
  }
}

std::chrono::milliseconds time_kept(const Reply& opened) {
  boost::system::error_code code;
  const boost::json::value answer = boost::json::parse(opened.body, code);
  const auto* const object = code ? nullptr : answer.if_object();
  const auto* const seconds = object != nullptr ? object->if_contains("keep_seconds") : nullptr;
  if (seconds == nullptr || !seconds->is_int64() || seconds->as_int64() < 1) return kUsuallyKept;
  return std::chrono::seconds(std::min(seconds->as_int64(), kLongestKept.count()));
}

bool may_work_later(const Result<Reply>& answer) {
  if (answer) return is_temporary(answer->status);
  return answer.error().code == ErrorCode::kUnavailable ||
         answer.error().code == ErrorCode::kTimeout;
}

Status carry_channel(const Carrying& carrying, UniqueFd local) {
  return Carrier(carrying, std::move(local)).run();
}

Result<std::unique_ptr<MemberChannel>> MemberChannel::begin(Daemon daemon, const MemberPlace& place,
                                                            std::string name,
                                                            milliseconds patience) {
  auto channel = std::unique_ptr<MemberChannel>(new MemberChannel(std::move(daemon)));
  int ends[2];
  channel->stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  channel->news_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!channel->stop_ || !channel->news_ ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  }
  channel->ours_ = UniqueFd(ends[0]);
  UniqueFd theirs(ends[1]);
  // Signals are for the caller's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    channel->thread_ = std::thread([self = channel.get(), place, patience, name = std::move(name),
                                    local = std::move(theirs)]() mutable {
      self->result_ = carry_channel({.daemon = self->daemon_,
                                     .place = place,
                                     .name = std::move(name),
                                     .stop = self->stop_.get(),
                                     .patience = patience,
                                     .on_loss =
                                         [self](bool lost) {
                                           self->lost_ = lost;
                                           ring(self->news_);
                                         }},
                                    std::move(local));
    });
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return err(ErrorCode::kResourceExhausted, "no thread: {}", error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return channel;
}

Result<std::unique_ptr<MemberChannel>> MemberChannel::over(UniqueFd socket) {
  auto channel = std::unique_ptr<MemberChannel>(new MemberChannel(Daemon(Daemon::Options{})));
  channel->news_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!channel->news_) {
    return err(ErrorCode::kResourceExhausted, "no descriptor: {}", std::strerror(errno));
  }
  channel->ours_ = std::move(socket);
  return channel;
}

MemberChannel::~MemberChannel() { (void)result(); }

Status MemberChannel::result() {
  if (!thread_.joinable()) return result_;
  ring(stop_);
  thread_.join();
  return result_;
}

}  // namespace divvy::cli
