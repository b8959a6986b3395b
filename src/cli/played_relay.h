// A relay for tests of the commands: the other end of one channel.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "net/http.h"
#include "sys/channel_pump.h"

namespace divvy::cli {

struct SocketPair {
  UniqueFd here;
  UniqueFd there;
};
inline SocketPair make_socket_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The other end of one channel, on a thread of its own, until it hears goodbye.
class PlayedRelay {
 public:
  // Cuts the connection after every so many steps; 0: never.
  explicit PlayedRelay(int cut_after = 0) : PlayedRelay(make_socket_pair(), cut_after) {}
  ~PlayedRelay() {
    stopping_ = true;
    ring();
    thread_.join();
  }
  PlayedRelay(const PlayedRelay&) = delete;
  PlayedRelay& operator=(const PlayedRelay&) = delete;

  // What the member has.
  [[nodiscard]] int member() const { return member_.get(); }
  // The same for somebody who closes it.
  [[nodiscard]] UniqueFd take_member() { return std::move(member_); }
  [[nodiscard]] int joins() const { return joins_; }
  void wait_for_goodbye() { goodbye_.wait(false); }
  // What GET /v1/jobs/{id}/channels does.
  net::HttpResponse join() {
    net::HttpResponse answer;
    answer.upgrade = [this](UniqueFd& socket) {
      SocketPair pair = make_socket_pair();
      socket = std::move(pair.here);
      {
        const std::lock_guard lock(mutex_);
        next_ = std::move(pair.there);
      }
      ++joins_;
      ring();
      net::HttpResponse switching{101, "", ""};
      switching.headers["upgrade"] = "websocket";
      return switching;
    };
    return answer;
  }

 private:
  PlayedRelay(SocketPair pair, int cut_after)
      : member_(std::move(pair.here)),
        bell_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this, cut_after, local = std::move(pair.there)]() mutable {
          run(std::move(local), cut_after);
        }) {}
  void ring() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(bell_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void run(UniqueFd local, int cut_after) {
    sys::ChannelPump pump(std::move(local), {});
    int steps = 0;
    while (!stopping_ && !pump.channel().heard_goodbye()) {
      sys::ChannelPump::Waits waits = pump.waits();
      pollfd all[] = {waits.local, waits.connection, {bell_.get(), POLLIN, 0}};
      ASSERT_GE(::poll(all, 3, -1), 1);
      waits.local = all[0];
      waits.connection = all[1];
      pump.step(waits);
      if (cut_after > 0 && ++steps % cut_after == 0) pump.carry({});
      if (all[2].revents == 0) continue;
      std::uint64_t rung = 0;
      EXPECT_EQ(::read(bell_.get(), &rung, sizeof rung), static_cast<ssize_t>(sizeof rung));
      const std::lock_guard lock(mutex_);
      if (next_) pump.carry(std::move(next_));
    }
    goodbye_ = true;
    goodbye_.notify_all();
  }

  UniqueFd member_;
  UniqueFd bell_;
  std::mutex mutex_;
  UniqueFd next_;
  std::atomic<int> joins_{0};
  std::atomic<bool> goodbye_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace divvy::cli
