#include "share/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "sys/privileges.h"

namespace divvy::share {
namespace {

enum class Order : std::uint32_t { kAdd = 1, kRemove = 2 };

struct OrderMessage {
  std::uint32_t order;
  std::uint32_t reserved;
  std::uint64_t key;
};

struct Kept {
  std::uint64_t key;
  wire::ControlPage* page;  // Null: this place is free
};

// Everything the other process does. It was forked from a process with threads, so from here on
// only system calls are safe: no allocation, no lock, no C++ library.
constexpr const char* kKeeperName = "divvy-keeper";

// Writes the name over this process's arguments, which is where `ps` and `pkill -f` look.
void rename_in_process_list() {
  char stat[1024];
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = ::read(fd, stat, sizeof stat - 1);
  ::close(fd);
  if (got <= 0) return;
  stat[got] = '\0';
  // Fields are counted from after the name, which may hold anything; 48 and 49 of proc(5).
  const char* at = std::strrchr(stat, ')');
  unsigned long begin = 0;
  unsigned long end = 0;
  for (int field = 3; at != nullptr && field <= 49; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return;
    ++at;
    if (field == 48) begin = std::strtoul(at, nullptr, 10);
    if (field == 49) end = std::strtoul(at, nullptr, 10);
  }
  if (begin == 0 || end <= begin) return;
  auto* arguments = reinterpret_cast<char*>(begin);  // NOLINT(performance-no-int-to-ptr)
  std::memset(arguments, 0, end - begin);
  std::strncpy(arguments, kKeeperName, end - begin - 1);
}

class KeeperProcess {
 public:
  KeeperProcess(int socket, Kept* table, std::size_t size)
      : socket_(socket), table_(table), size_(size) {}

  [[noreturn]] void run() {
    isolate();
    for (;;) {
      OrderMessage message{};
      int fd = -1;
      const ssize_t got = receive(message, fd);
      if (got == 0 || (got < 0 && errno != EINTR)) break;
      if (got < 0) continue;
      if (got == sizeof message) obey(message, fd);
      if (fd >= 0) ::close(fd);
    }
    for (std::size_t i = 0; i < size_; ++i) {
      if (table_[i].page != nullptr) open_all_gates(*table_[i].page);
    }
    ::_exit(0);
  }

 private:
  // Keeps nothing of the daemon's open, least of all its lock and its listening sockets, and does
  // not end with it when a terminal or a service manager signals the whole group.
  void isolate() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
      ::signal(signal, SIG_IGN);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // Whoever kills "divvyd" by name must not hit this process with it: it is there for that
    // moment.
    ::prctl(PR_SET_NAME, kKeeperName);
    rename_in_process_list();
    ::setsid();
    sys::drop_all_privileges();
    const auto keep = static_cast<unsigned>(socket_);
    if (keep > 0) ::syscall(SYS_close_range, 0U, keep - 1, 0U);
    ::syscall(SYS_close_range, keep + 1, ~0U, 0U);
  }

  ssize_t receive(OrderMessage& message, int& fd) {
    iovec part{&message, sizeof message};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    const ssize_t got = ::recvmsg(socket_, &header, MSG_CMSG_CLOEXEC);
    if (got > 0) {
      const cmsghdr* first = CMSG_FIRSTHDR(&header);
      if (first != nullptr && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS) {
        std::memcpy(&fd, CMSG_DATA(first), sizeof fd);
      }
    }
    return got;
  }

  void obey(const OrderMessage& message, int fd) {
    if (message.order == static_cast<std::uint32_t>(Order::kRemove)) {
      for (std::size_t i = 0; i < size_; ++i) {
        if (table_[i].page == nullptr || table_[i].key != message.key) continue;
        ::munmap(table_[i].page, wire::kControlBytes);
        table_[i].page = nullptr;
      }
      return;
    }
    char answer = 0;
    for (std::size_t i = 0; i < size_ && fd >= 0; ++i) {
      if (table_[i].page != nullptr) continue;
      void* page = ::mmap(nullptr, wire::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (page == MAP_FAILED) break;
      table_[i] = {message.key, static_cast<wire::ControlPage*>(page)};
      answer = 1;
      break;
    }
    (void)::send(socket_, &answer, 1, MSG_NOSIGNAL);
  }

  const int socket_;
  Kept* const table_;
  const std::size_t size_;
};

bool send_order(int socket, const OrderMessage& message, int fd) {
  OrderMessage copy = message;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(first), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof copy;
}

}  // namespace

void open_all_gates(wire::ControlPage& page) {
  for (wire::ControlGpu& gpu : page.gpu) {
    gpu.mode.store(static_cast<std::uint32_t>(wire::Mode::kFree), std::memory_order_release);
    gpu.gate.store(1, std::memory_order_release);
  }
  page.any_gated.store(0, std::memory_order_release);
}

Result<Keeper> Keeper::create() {
  Keeper keeper;
  DIVVY_RETURN_IF_ERROR(keeper.start());
  return keeper;
}

Keeper::Keeper(Keeper&& other) noexcept
    : socket_(std::move(other.socket_)),
      pid_(std::exchange(other.pid_, -1)),
      pages_(std::move(other.pages_)) {}

Keeper::~Keeper() { forget_process(); }

Status Keeper::start() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket for the keeper: {}", std::strerror(errno));
  }
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  // Made here, because the other process cannot allocate.
  std::vector<Kept> table(kMaxPages, Kept{0, nullptr});
  std::size_t used = 0;
  for (const auto& [key, page] : pages_) {
    if (used < table.size()) table[used++] = {key, page};
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    return err(ErrorCode::kResourceExhausted, "the keeper could not be started: {}",
               std::strerror(errno));
  }
  if (pid == 0) KeeperProcess(theirs.get(), table.data(), table.size()).run();
  socket_ = std::move(ours);
  pid_ = pid;
  return {};
}

void Keeper::forget_process() {
  socket_.reset();  // It now opens what it keeps, and ends.
  if (pid_ > 0) {
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

void Keeper::know(std::uint64_t key, wire::ControlPage* page) {
  const std::lock_guard lock(mutex_);
  pages_[key] = page;
}

Status Keeper::add(std::uint64_t key, int fd) {
  const std::lock_guard lock(mutex_);
  const OrderMessage message{static_cast<std::uint32_t>(Order::kAdd), 0, key};
  char answer = 0;
  if (send_order(socket_.get(), message, fd)) {
    ssize_t got = -1;
    do {
      got = ::recv(socket_.get(), &answer, 1, 0);
    } while (got < 0 && errno == EINTR);
    if (got == 1 && answer == 1) return {};
    if (got == 1) {
      return err(ErrorCode::kResourceExhausted, "the keeper cannot look after another page");
    }
  }
  // It is gone; the next one inherits the other pages and can be given this one.
  forget_process();
  DIVVY_RETURN_IF_ERROR(start());
  if (send_order(socket_.get(), message, fd) && ::recv(socket_.get(), &answer, 1, 0) == 1 &&
      answer == 1) {
    return {};
  }
  return err(ErrorCode::kUnavailable, "the keeper does not answer");
}

void Keeper::remove(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  pages_.erase(key);
  (void)send_order(socket_.get(), {static_cast<std::uint32_t>(Order::kRemove), 0, key}, -1);
}

int Keeper::watch_fd() const {
  const std::lock_guard lock(mutex_);
  return socket_.get();
}

pid_t Keeper::pid() const {
  const std::lock_guard lock(mutex_);
  return pid_;
}

Status Keeper::revive() {
  const std::lock_guard lock(mutex_);
  pollfd wait{socket_.get(), POLLIN, 0};
  if (pid_ > 0 && ::poll(&wait, 1, 0) == 0) return {};
  log_warning("keeper is gone, starting another", {{"pid", pid_}});
  forget_process();
  return start();
}

}  // namespace divvy::share
