#include "sys/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

#include "base/temporary_folder.h"
#include "base/unique_fd.h"

namespace divvy::sys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The socket that a service manager listens on.
class Listener {
 public:
  // '@' at the beginning: an abstract one.
  explicit Listener(const std::string& address)
      : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    address.copy(name.sun_path, sizeof name.sun_path - 1);
    if (address[0] == '@') name.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&name), size), 0);
  }
  // The next datagram; on one machine it has arrived when it was sent.
  std::string next() const {
    char buffer[1024];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    return got < 0 ? "" : std::string(buffer, static_cast<std::size_t>(got));
  }

 private:
  UniqueFd fd_;
};

TEST(Supervisor, NotifiesThroughAPathSocket) {
  const TemporaryFolder folder;
  {
    const Listener listener((folder / "notify").string());
    const Supervisor supervisor((folder / "notify").string(), std::nullopt);
    supervisor.ready("2 GPUs");
    EXPECT_EQ(listener.next(), "READY=1\nSTATUS=2 GPUs");
    supervisor.stopping();
    EXPECT_THAT(listener.next(), StartsWith("STOPPING=1\n"));
    supervisor.reloading();
    const std::string reloading = listener.next();
    EXPECT_THAT(reloading, StartsWith("RELOADING=1\n"));
    EXPECT_THAT(reloading, HasSubstr("\nMONOTONIC_USEC="));
    EXPECT_EQ(listener.next(), "");
  }
}

TEST(Supervisor, NotifiesThroughAnAbstractSocket) {
  const std::string name = "@divvy-supervisor-test-" + std::to_string(::getpid());
  const Listener listener(name);
  const Supervisor supervisor(name, std::chrono::seconds(30));
  supervisor.alive("one\nREADY=1");
  EXPECT_EQ(listener.next(), "WATCHDOG=1\nSTATUS=one READY=1");
  EXPECT_EQ(supervisor.watchdog_period(), std::chrono::seconds(15));
}

TEST(Supervisor, ComesFromTheEnvironmentAndIsTakenOutOfIt) {
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("WATCHDOG_USEC", "4000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  const Supervisor supervisor = Supervisor::from_environment();
  EXPECT_EQ(supervisor.watchdog_period(), std::chrono::seconds(2));
  EXPECT_EQ(::getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(::getenv("WATCHDOG_USEC"), nullptr);
  supervisor.ready("nobody listens, and nothing happens");
}

TEST(Supervisor, TheWatchdogOfAnotherProcessIsNotOurs) {
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("WATCHDOG_USEC", "4000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(Supervisor::from_environment().watchdog_period(), std::nullopt);
}

TEST(Supervisor, WithoutOneNothingHappens) {
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("WATCHDOG_PID");
  const Supervisor supervisor = Supervisor::from_environment();
  supervisor.ready("");
  EXPECT_EQ(supervisor.watchdog_period(), std::nullopt);
}

}  // namespace
}  // namespace divvy::sys
