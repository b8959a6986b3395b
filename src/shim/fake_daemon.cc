#include "shim/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace divvy::shim {
namespace {

void need(bool good) {
  if (!good) abort();
}

void* make_page(const char* name, size_t bytes, int* fd) {
  *fd = static_cast<int>(syscall(SYS_memfd_create, name, 1U | 2U));  // close on exec, sealable
  need(*fd >= 0 && ftruncate(*fd, static_cast<off_t>(bytes)) == 0);
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  need(page != MAP_FAILED);
  return page;
}

void send_with(int fd, const void* data, size_t bytes, const int* fds, size_t count) {
  iovec part = {const_cast<void*>(data), bytes};
  alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
  }
  sendmsg(fd, &message, MSG_NOSIGNAL);
}

// One packet; descriptors that come along are closed.
ssize_t receive(int fd, void* data, size_t bytes) {
  iovec part = {data, bytes};
  alignas(cmsghdr) char space[CMSG_SPACE(4 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* head = got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr; head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      memcpy(&descriptor, CMSG_DATA(head) + i * sizeof(int), sizeof descriptor);
      close(descriptor);
    }
  }
  return got;
}

}  // namespace

FakeDaemon::FakeDaemon(std::string path, const std::vector<Slice>& slices)
    : path_(std::move(path)) {
  control_ =
      static_cast<wire::ControlPage*>(make_page("control", wire::kControlBytes, &control_fd_));
  start_account();
  control_->magic = wire::kControlMagic;
  control_->version = wire::kPagesVersion;
  control_->tenant = 1;
  control_->gpu_count = static_cast<uint32_t>(slices.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    memcpy(control_->gpu[i].uuid, slices[i].uuid, sizeof slices[i].uuid);
    control_->gpu[i].memory_limit = slices[i].memory_limit;
    control_->gpu[i].gate = 1;
    control_->gpu[i].share = 1000;
    control_->gpu[i].minor = static_cast<uint32_t>(i);
  }

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  need(path_.size() < sizeof address.sun_path);
  memcpy(address.sun_path, path_.c_str(), path_.size());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  need(listener_ >= 0 &&
       bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
       listen(listener_, 64) == 0 && pipe2(stop_, O_CLOEXEC) == 0);
  thread_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
  close(listener_);
  unlink(path_.c_str());
  munmap(control_, wire::kControlBytes);
  for (wire::AccountPage* page : old_accounts_) munmap(page, wire::kAccountBytes);
  for (const auto& [fd, process] : silent_) close(fd);
  close(control_fd_);
  close(account_fd_);
}

void FakeDaemon::start_account() {
  if (account_fd_ >= 0) close(account_fd_);
  auto* page =
      static_cast<wire::AccountPage*>(make_page("account", wire::kAccountBytes, &account_fd_));
  page->magic = wire::kAccountMagic;
  page->version = wire::kPagesVersion;
  account_ = page;
  old_accounts_.push_back(page);
}

void FakeDaemon::forget_everybody() { need(write(stop_[1], "f", 1) == 1); }

void FakeDaemon::measure_with(Meter meter) {
  const std::lock_guard lock(mutex_);
  meter_ = std::move(meter);
}

void FakeDaemon::refuse(wire::Refusal why) {
  const std::lock_guard lock(mutex_);
  refusal_ = why;
}

void FakeDaemon::speak_up_to(uint32_t version) {
  const std::lock_guard lock(mutex_);
  newest_ = version;
}

int FakeDaemon::registered() const {
  const std::lock_guard lock(mutex_);
  return registered_;
}

uint64_t FakeDaemon::bytes_in_use(int gpu) const {
  uint64_t sum = control_->gpu[gpu].uncounted_bytes;
  for (const wire::AccountSlot& slot : account_.load()->slot) {
    sum += slot.gpu[gpu].used + slot.gpu[gpu].pending;
  }
  return sum;
}

void FakeDaemon::serve() {
  std::map<int, Process> processes;
  for (;;) {
    std::vector<pollfd> waiting = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& [fd, process] : processes) waiting.push_back({fd, POLLIN, 0});
    for (const auto& [fd, process] : silent_) waiting.push_back({fd, POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) {
      char order = 0;
      if (read(stop_[0], &order, 1) <= 0) break;
      for (const auto& [fd, process] : processes) close(fd);
      for (const auto& [fd, process] : silent_) close(fd);
      processes.clear();
      silent_.clear();
      start_account();
      continue;
    }
    if (waiting[1].revents != 0) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) processes[fd] = {};
    }
    for (size_t i = 2; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const int fd = waiting[i].fd;
      if (const auto gone = silent_.find(fd); gone != silent_.end()) {
        drop(gone->second);
        silent_.erase(gone);
      } else if (!processes.contains(fd) || answer(fd, processes[fd])) {
        continue;
      } else {
        hung_up(processes[fd]);
        processes.erase(fd);
      }
      close(fd);
    }
  }
  for (const auto& [fd, process] : processes) close(fd);
}

bool FakeDaemon::answer(int fd, Process& process) {
  alignas(8) char data[512];
  const ssize_t got = receive(fd, data, sizeof data);
  if (got < static_cast<ssize_t>(sizeof(wire::Header))) return false;
  wire::Header header{};
  memcpy(&header, data, sizeof header);
  switch (static_cast<wire::Kind>(header.kind)) {
    case wire::Kind::kHello: {
      ucred who{};
      socklen_t length = sizeof who;
      need(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0);
      process.pid = who.pid;
      wire::Hello hello{};
      memcpy(&hello, data, std::min(static_cast<size_t>(got), sizeof hello));
      welcome(fd, process, hello, static_cast<size_t>(got));
      return process.known;
    }
    case wire::Kind::kMeasure: {
      wire::Measure question{};
      memcpy(&question, data, sizeof question);
      wire::Measured reply{};
      reply.header = {static_cast<uint32_t>(wire::Kind::kMeasured), sizeof reply};
      reply.gpu = question.gpu;
      reply.serial = question.serial;
      uint64_t bytes = 0;
      Meter meter;
      {
        const std::lock_guard lock(mutex_);
        meter = meter_;
      }
      reply.known = meter && meter(process.pid, question.gpu, &bytes) ? 1 : 0;
      reply.bytes = bytes;
      send_with(fd, &reply, sizeof reply, nullptr, 0);
      return true;
    }
    default:
      return true;
  }
}

void FakeDaemon::welcome(int fd, Process& process, const wire::Hello& hello, size_t hello_bytes) {
  wire::Welcome reply{};
  reply.header = {static_cast<uint32_t>(wire::Kind::kWelcome), sizeof reply};
  wire::AccountPage& account = *account_.load();
  const bool returns = hello.generation != 0;
  {
    const std::lock_guard lock(mutex_);
    reply.version = newest_;
    reply.refusal = static_cast<uint32_t>(refusal_);
    const bool understood =
        hello.version <= newest_ && hello_bytes == wire::hello_bytes(hello.version);
    const bool known = !returns || (hello.slot < wire::kMaxProcesses &&
                                    account.slot[hello.slot].generation == hello.generation &&
                                    account.slot[hello.slot].pid == process.pid);
    if (!known) reply.refusal = static_cast<uint32_t>(wire::Refusal::kMalformed);
    if (!understood) reply.refusal = static_cast<uint32_t>(wire::Refusal::kVersion);
    if (reply.refusal == 0) ++registered_;
  }
  if (reply.refusal != 0) {
    send_with(fd, &reply, sizeof reply, nullptr, 0);
    return;
  }
  std::erase_if(silent_, [&](const auto& entry) {
    if (entry.second.pid != process.pid) return false;
    if (!returns) drop(entry.second);
    close(entry.first);
    return true;
  });
  uint32_t slot = hello.slot;
  if (!returns) {
    slot = 0;
    while ((account.slot[slot].generation & 1U) != 0) ++slot;
    need(slot < wire::kMaxProcesses);
    ++account.slot[slot].generation;
  }
  reply.generation = account.slot[slot].generation;
  account.slot[slot].pid = process.pid;
  if (account.slot_high <= slot) account.slot_high = slot + 1;
  reply.slot = slot;
  process.slot = slot;
  process.known = true;
  const int fds[] = {control_fd_, account_fd_};
  send_with(fd, &reply, sizeof reply, fds, 2);
}

void FakeDaemon::hung_up(const Process& process) {
  if (!process.known) return;
  const int life = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  pollfd gone = {life, POLLIN, 0};
  if (life < 0 || poll(&gone, 1, 0) != 0) {
    if (life >= 0) close(life);
    return drop(process);
  }
  silent_[life] = process;
}

void FakeDaemon::drop(const Process& process) {
  if (!process.known) return;
  wire::AccountSlot& slot = account_.load()->slot[process.slot];
  for (wire::AccountCell& cell : slot.gpu) {
    cell.used = 0;
    cell.pending = 0;
  }
  slot.pid = 0;
  ++slot.generation;
}

}  // namespace divvy::shim
