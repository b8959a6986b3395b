#include "net/local_connect.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>

#include "base/temporary_folder.h"
#include "net/http.h"

namespace divvy::net {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 65'534;

class LocalConnect : public ::testing::Test {
 protected:
  // In the child of a test that may become anybody.
  static bool as_other(const std::function<bool()>& does) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(::setgid(kOther) == 0 && ::setuid(kOther) == 0 && does() ? 0 : 1);
    }
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
  }
  static bool listen_at(int fd, const fs::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
           ::listen(fd, 8) == 0;
  }
  static Result<HttpResponse> ask(
      const fs::path& socket, std::chrono::milliseconds silence = std::chrono::milliseconds(50)) {
    return http_request({.socket = socket, .silence = silence},
                        {.method = "POST", .path = "/", .query = {}, .body = "secret"},
                        std::nullopt);
  }

  TemporaryFolder folder_;
  const UniqueFd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

// As a user without XDG_RUNTIME_DIR finds it: /tmp/divvy-UID, which anybody can make first.
TEST_F(LocalConnect, RefusesASocketInAnotherUsersFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 01777), 0);
  const fs::path theirs = folder_ / "divvy-0";
  ASSERT_TRUE(as_other([&] {
    return ::mkdir(theirs.c_str(), 0755) == 0 && listen_at(listener_.get(), theirs / "divvyd.sock");
  }));
  const auto answer = ask(theirs / "divvyd.sock");
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(answer.error().message.find("belongs to user 65534"), std::string::npos)
      << answer.error().message;
  pollfd came{listener_.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&came, 1, 0), 0) << "a connection was made";
}

TEST_F(LocalConnect, RefusesAListenerOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
  const fs::path socket = folder_ / "divvyd.sock";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
  ASSERT_TRUE(as_other([&] { return listen_at(listener_.get(), socket); }));
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const auto answer = ask(socket);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kPermissionDenied);
  const UniqueFd came(::accept(listener_.get(), nullptr, nullptr));
  char byte = 0;
  EXPECT_EQ(::read(came.get(), &byte, 1), 0) << "something was said";
}

TEST_F(LocalConnect, TimesOutOnAStoppedDaemon) {
  const fs::path socket = folder_ / "divvyd.sock";
  ASSERT_TRUE(listen_at(listener_.get(), socket));
  const auto answer = ask(socket);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
  EXPECT_NE(answer.error().message.find("stopped"), std::string::npos) << answer.error().message;
}

TEST_F(LocalConnect, WaitsForADaemonThatIsOnlyBusy) {
  HttpServerOptions options;
  options.socket = folder_ / "divvyd.sock";
  std::atomic<int> signs{0};
  const auto server = HttpServer::create(options, [&](const HttpRequest& request, const Caller&) {
    // The long request is answered once the client has asked for a sign of life.
    if (request.path == "/v1/alive") {
      ++signs;
      signs.notify_all();
    } else {
      signs.wait(0);
    }
    return HttpResponse{.body = request.path};
  });
  ASSERT_TRUE(server.has_value());
  const auto answer = ask(options.socket, std::chrono::seconds(2));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->body, "/");
}

TEST_F(LocalConnect, TellsThatNobodyIsThere) {
  EXPECT_EQ(ask(folder_ / "none.sock").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(ask(folder_ / "no/folder/none.sock").error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace divvy::net
