#include "shim/session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shim/deadline.h"
#include "shim/join_patience.h"
#include "shim/link.h"
#include "shim/locked.h"
#include "shim/own_fd.h"
#include "shim/real.h"
#include "wire/messages.h"

// Declared by no header, exported by every glibc: pthread_atfork itself is a static function that
// calls it.
extern "C" int __register_atfork(void (*)(), void (*)(), void (*)(), void*);

namespace divvy::shim {

constinit SessionView g_session_view;

namespace {

constexpr int kMaxDevices = 64;
constexpr int kAnswerPatienceMs = 2000;
constexpr timespec kBetweenTries = {0, 20'000'000};

constexpr int kAddSeals = 1033;  // F_ADD_SEALS, which headers older than the kernel lack
constexpr int kSealSeal = 1;
constexpr int kSealShrink = 2;
constexpr int kSealGrow = 4;

struct Session {
  pthread_mutex_t lock;  // joining, and one question to the daemon at a time
  std::atomic<wire::LanesPage*> lanes;
  OwnFd socket;
  OwnFd account_fd;  // for the next daemon, like the lanes page
  OwnFd lanes_fd;
  uint32_t generation;
  uint32_t serial;
  bool lanes_replaced;
  std::atomic<int8_t> slice_of_device[kMaxDevices];  // slice + 1; 0: none
  bool fork_handler;
};

constinit Session g_session = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .lanes = nullptr,
                               .socket = {},
                               .account_fd = {},
                               .lanes_fd = {},
                               .generation = 0,
                               .serial = 0,
                               .lanes_replaced = false,
                               .slice_of_device = {},
                               .fork_handler = false};

uintptr_t seat_at(void* page, uint32_t slot) { return reinterpret_cast<uintptr_t>(page) | slot; }

// A child has its parent's pages but is another process: it holds nothing and registers anew, if it
// ever uses CUDA. Its copy of the socket must not keep the parent's open.
void forget_after_fork() {
  g_session.socket.close();
  g_session.account_fd.close();
  g_session.lanes_fd.close();
  g_session_view.control.store(nullptr);
  g_session_view.seat.store(0);
  g_session.lanes.store(nullptr);
  g_session.lanes_replaced = false;
  g_session.generation = 0;
  g_session_view.standing.store(Standing::kUnknown);
  memset(&g_session.lock, 0, sizeof g_session.lock);
  link_forget_after_fork();
}

void close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// A page whose descriptor was closed by the program cannot be shown to anybody any more; another
// takes its place.
bool make_lanes() {
  if (g_session.lanes.load() != nullptr && !g_session.lanes_fd.lost()) return true;
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "divvy-lanes", 3u));  // cloexec, seals
  if (fd < 0) return false;
  void* page = MAP_FAILED;
  if (ftruncate(fd, wire::kLanesBytes) == 0) {
    page = mmap(nullptr, wire::kLanesBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (page == MAP_FAILED ||
      syscall(SYS_fcntl, fd, kAddSeals, kSealShrink | kSealGrow | kSealSeal) != 0) {
    close(fd);
    return false;
  }
  auto* lanes = static_cast<wire::LanesPage*>(page);
  lanes->magic = wire::kLanesMagic;
  lanes->version = wire::kPagesVersion;
  g_session.lanes_fd.take(fd);
  g_session.lanes_replaced = g_session.lanes.exchange(lanes) != nullptr;
  return true;
}

int connect_to(const char* path) {
  sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  // Blocking, it would wait for ever for a daemon that is stopped and whose queue is full.
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

bool readable(int fd, const Deadline& deadline) {
  pollfd wait = {fd, POLLIN, 0};
  int got;
  do {
    got = poll(&wait, 1, deadline.left_ms());
  } while (got < 0 && errno == EINTR);
  return got > 0 && (wait.revents & POLLIN) != 0;
}

bool send_hello(int fd, uint32_t version) {
  wire::Hello hello;
  memset(&hello, 0, sizeof hello);
  const uint32_t bytes = wire::hello_bytes(version);
  hello.header = {static_cast<uint32_t>(wire::Kind::kHello), bytes};
  hello.version = version;
  hello.pid = static_cast<int32_t>(getpid());
  hello.slot = seat_slot(g_session_view.seat.load());
  hello.generation = g_session.generation;
  const char* name = program_invocation_short_name;
  if (name != nullptr) strncpy(hello.program, name, sizeof hello.program - 1);
  strncpy(hello.release, DIVVY_VERSION, sizeof hello.release - 1);

  const int fds[2] = {g_session.lanes_fd.get(), g_session.account_fd.get()};
  const int count = g_session.generation != 0 ? 2 : 1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fds)];
  memset(space, 0, sizeof space);
  iovec data = {&hello, bytes};
  msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = CMSG_SPACE(static_cast<size_t>(count) * sizeof(int));
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(static_cast<size_t>(count) * sizeof(int));
  memcpy(CMSG_DATA(head), fds, static_cast<size_t>(count) * sizeof(int));
  return sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// Fills `fds` with the two descriptors of a Welcome that is none's refusal.
bool receive_welcome(int fd, wire::Welcome* welcome, int (&fds)[2]) {
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fds)];
  iovec data = {welcome, sizeof *welcome};
  msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  fds[0] = fds[1] = -1;
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* head = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof fds)) {
    memcpy(fds, CMSG_DATA(head), sizeof fds);
  }
  return got == static_cast<ssize_t>(sizeof *welcome) &&
         welcome->header.kind == static_cast<uint32_t>(wire::Kind::kWelcome);
}

// The process has another slot, in another account page if the daemon has forgotten the old one:
// what it holds is counted there from now on. While its seat is 0 nobody counts (session.h).
void move_in(wire::AccountPage* page, uint32_t slot, const wire::AccountSlot* held) {
  for (int gpu = 0; held != nullptr && gpu < wire::kMaxGpus; ++gpu) {
    wire::AccountCell& cell = page->slot[slot].gpu[gpu];
    cell.used.fetch_add(held->gpu[gpu].used.load());
    cell.peak.store(held->gpu[gpu].peak.load());
    cell.refused.store(held->gpu[gpu].refused.load());
  }
  g_session_view.seat.store(seat_at(page, slot));
}

// One try to register through an open socket, in `version`. Where the daemon does not speak it,
// `version` becomes the daemon's. `held`: what this process has counted in a slot that it is not
// coming back to. Under the lock.
Standing introduce(int fd, uint32_t* version, const Deadline& deadline,
                   const wire::AccountSlot* held) {
  wire::Welcome welcome;
  int fds[2];
  if (!send_hello(fd, *version) || !readable(fd, deadline) || !receive_welcome(fd, &welcome, fds)) {
    return Standing::kUnreachable;
  }
  if (welcome.refusal == static_cast<uint32_t>(wire::Refusal::kVersion)) *version = welcome.version;
  if (welcome.refusal != static_cast<uint32_t>(wire::Refusal::kNone) || fds[0] < 0 || fds[1] < 0 ||
      welcome.slot >= wire::kMaxProcesses) {
    close_fd(&fds[0]);
    close_fd(&fds[1]);
    return Standing::kRefused;
  }
  void* control = mmap(nullptr, wire::kControlBytes, PROT_READ, MAP_SHARED, fds[0], 0);
  close_fd(&fds[0]);
  // One that came back has the account page that it sent along, at the address that is in use.
  const bool came_back = g_session.generation != 0;
  void* account =
      came_back ? seat_page(g_session_view.seat.load())
                : mmap(nullptr, wire::kAccountBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
  if (control == MAP_FAILED || account == MAP_FAILED) {
    close_fd(&fds[1]);
    return Standing::kRefused;
  }
  if (came_back) {
    close_fd(&fds[1]);
  } else {
    g_session.account_fd.take(fds[1]);
    move_in(static_cast<wire::AccountPage*>(account), welcome.slot, held);
  }
  g_session.generation = welcome.generation;
  const auto* page = static_cast<const wire::ControlPage*>(control);
  g_session_view.one_slice.store(page->gpu_count == 1);
  g_session_view.control.store(page);
  g_session.socket.take(fd);
  return Standing::kTenant;
}

Standing try_to_join(const char* path, const Deadline& deadline,
                     const wire::AccountSlot* held = nullptr) {
  // A daemon that is older than this library says which version it speaks, and hangs up.
  for (uint32_t version = wire::kWireVersion;;) {
    const int fd = connect_to(path);
    if (fd < 0) return Standing::kUnreachable;
    const uint32_t said = version;
    const Standing answer = introduce(fd, &version, deadline, held);
    if (answer == Standing::kTenant) return answer;
    close(fd);
    if (version >= said || version < wire::kOldestWireVersion) return answer;
  }
}

// Registers as if for the first time, with what the process holds.
Standing join_anew(const char* path, const Deadline& deadline) {
  // Nobody shall wait for a daemon that is not there.
  const int probe = connect_to(path);
  if (probe < 0) return Standing::kUnreachable;
  close(probe);
  const uintptr_t seat = g_session_view.seat.exchange(0);
  // Whoever counts at this moment is through in an instant.
  nanosleep(&kBetweenTries, nullptr);
  const uint32_t generation = g_session.generation;
  g_session.generation = 0;
  // A copy: the daemon clears the old slot when it sees that the process has another.
  static wire::AccountSlot held;
  for (int gpu = 0; gpu < wire::kMaxGpus; ++gpu) {
    const wire::AccountCell& cell = seat_page(seat)->slot[seat_slot(seat)].gpu[gpu];
    held.gpu[gpu].used.store(cell.used.load());
    held.gpu[gpu].peak.store(cell.peak.load());
    held.gpu[gpu].refused.store(cell.refused.load());
  }
  const Standing answer = try_to_join(path, deadline, &held);
  if (answer != Standing::kTenant) {
    g_session.generation = generation;
    g_session_view.seat.store(seat);
  }
  return answer;
}

}  // namespace

uintptr_t seat_after_move() {
  uintptr_t seat = 0;
  while (seat == 0 && control() != nullptr) {
    sched_yield();
    seat = g_session_view.seat.load(std::memory_order_acquire);
  }
  return seat;
}
wire::LanesPage* lanes() { return g_session.lanes.load(std::memory_order_acquire); }
int session_socket() { return g_session.socket.get(); }

Standing join() {
  const Standing known = standing();
  if (known != Standing::kUnknown && known != Standing::kUnreachable) return known;
  const Locked locked(g_session.lock);
  const Standing again = standing();
  if (again != Standing::kUnknown && again != Standing::kUnreachable) return again;

  const char* path = getenv(wire::kSocketVariable);
  Standing answer = Standing::kNoTenant;
  if (path != nullptr && path[0] != '\0') {
    answer = Standing::kUnreachable;
    if (!g_session.fork_handler) {
      g_session.fork_handler = __register_atfork(nullptr, nullptr, forget_after_fork, nullptr) == 0;
    }
    for (const Deadline deadline(join_patience_ms(getenv(wire::kSocketWaitVariable)));
         make_lanes() && !deadline.over();) {
      answer = try_to_join(path, deadline);
      if (answer != Standing::kUnreachable) break;
      nanosleep(&kBetweenTries, nullptr);
    }
  }
  g_session_view.standing.store(answer, std::memory_order_release);
  return answer;
}

bool rejoin(bool* lanes_replaced) {
  const char* path = getenv(wire::kSocketVariable);
  if (path == nullptr) return false;
  const Locked locked(g_session.lock);
  g_session.socket.close();
  const Deadline deadline(kAnswerPatienceMs);
  if (!make_lanes()) return false;
  Standing answer = Standing::kRefused;
  if (!g_session.account_fd.lost()) answer = try_to_join(path, deadline);
  // It cannot come back to its slot, or the daemon knows nothing of it any more: it was stopped for
  // longer than the daemon waits after a restart.
  if (answer == Standing::kRefused) answer = join_anew(path, deadline);
  if (answer != Standing::kTenant) return false;
  *lanes_replaced = g_session.lanes_replaced;
  g_session.lanes_replaced = false;
  return true;
}

void devices_known() {
  const wire::ControlPage* page = control();
  int count = 0;
  if (page == nullptr || g_cuda.cuDeviceGetCount(&count) != CUDA_SUCCESS) return;
  for (int device = 0; device < count && device < kMaxDevices; ++device) {
    CUuuid uuid;
    const auto get =
        g_cuda.cuDeviceGetUuid_v2 != nullptr ? g_cuda.cuDeviceGetUuid_v2 : g_cuda.cuDeviceGetUuid;
    if (get == nullptr || get(&uuid, device) != CUDA_SUCCESS) continue;
    for (uint32_t i = 0; i < page->gpu_count && i < wire::kMaxGpus; ++i) {
      if (memcmp(&uuid, page->gpu[i].uuid, sizeof page->gpu[i].uuid) == 0) {
        g_session.slice_of_device[device].store(static_cast<int8_t>(i + 1));
      }
    }
  }
}

int slice_of_device(CUdevice device) {
  if (device < 0 || device >= kMaxDevices) return -1;
  return g_session.slice_of_device[device].load(std::memory_order_relaxed) - 1;
}

int slice_of_current() {
  CUdevice device = -1;
  if (g_cuda.cuCtxGetDevice(&device) != CUDA_SUCCESS) return -1;
  return slice_of_device(device);
}

int slice_of_context(CUcontext context) {
  CUcontext popped;
  if (g_cuda.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) return -1;
  const int slice = slice_of_current();
  g_cuda.cuCtxPopCurrent_v2(&popped);
  return slice;
}

bool measure(int slice, uint64_t* bytes) {
  const Locked locked(g_session.lock);
  const int fd = session_socket();
  if (fd < 0 || slice < 0) return false;
  const Deadline deadline(kAnswerPatienceMs);
  wire::Measure question;
  question.header = {static_cast<uint32_t>(wire::Kind::kMeasure), sizeof question};
  question.gpu = static_cast<uint32_t>(slice);
  question.serial = ++g_session.serial;
  if (send(fd, &question, sizeof question, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof question)) {
    return false;
  }
  // An answer to an earlier question that was given up may still come first.
  while (readable(fd, deadline)) {
    wire::Measured answer;
    const ssize_t got = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
    if (got != static_cast<ssize_t>(sizeof answer)) return false;
    if (answer.serial != question.serial) continue;
    *bytes = answer.bytes;
    return answer.known != 0;
  }
  return false;
}

void ring_doorbell() {
  const int fd = session_socket();
  if (fd < 0) return;
  wire::Doorbell bell;
  bell.header = {static_cast<uint32_t>(wire::Kind::kDoorbell), sizeof bell};
  send(fd, &bell, sizeof bell, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace divvy::shim
