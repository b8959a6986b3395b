#include "gpu.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace divvy::conformance {

CUdevice device = 0;
CUcontext context = nullptr;
CUmodule module = nullptr;
CUfunction fill32 = nullptr;
CUfunction empty = nullptr;

const char* const kCaseKernels = R"ptx(
.version 7.0
.target sm_70
.address_size 64

//@simgpu fill32 ns=1000 fill32=param0,param1,param2
//@simgpu empty ns=0
//@simgpu shared1k ns=0

.visible .global .align 8 .b8 table[64];
)ptx"
#include "abi/fill32_ptx.inc"
                                 R"ptx(
.visible .entry empty()
{
  ret;
}

.visible .entry shared1k()
{
  .shared .align 4 .b8 room[1024];
  .reg .u32 %thread, %address;
  mov.u32 %thread, %tid.x;
  mov.u32 %address, room;
  st.volatile.shared.u32 [%address], %thread;
  ret;
}
)ptx";

bool start_gpu(Check& t) {
  return t.ok("cuInit(0)", cu.cuInit(0)) && t.ok("cuDeviceGet", cu.cuDeviceGet(&device, 0)) &&
         t.ok("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&context, device)) &&
         t.ok("cuCtxSetCurrent", cu.cuCtxSetCurrent(context));
}

bool load_kernels(Check& t) {
  return start_gpu(t) && t.ok("cuModuleLoadData", cu.cuModuleLoadData(&module, kCaseKernels)) &&
         t.ok("fill32", cu.cuModuleGetFunction(&fill32, module, "fill32")) &&
         t.ok("empty", cu.cuModuleGetFunction(&empty, module, "empty"));
}

CUresult launch_fill(CUdeviceptr to, uint64_t count, uint32_t value, CUstream stream) {
  std::array<void*, 3> parameters = {&to, &count, &value};
  return cu.cuLaunchKernel(fill32, 1, 1, 1, 256, 1, 1, 0, stream, parameters.data(), nullptr);
}

uint32_t word_at(CUdeviceptr from) {
  uint32_t word = 0;
  cu.cuCtxSynchronize();
  cu.cuMemcpyDtoH_v2(&word, from, sizeof word);
  return word;
}

uint64_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  cu.cuMemGetInfo_v2(&free, &total);
  return free;
}

int attribute(CUdevice_attribute which) {
  int value = -1;
  cu.cuDeviceGetAttribute(&value, which, device);
  return value;
}

Gate::Gate(Check& t, CUstream stream) {
  void* memory = nullptr;
  if (!t.ok("gate: cuMemHostAlloc", cu.cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP))) {
    return;
  }
  word_ = static_cast<uint32_t*>(memory);
  __atomic_store_n(word_, 0, __ATOMIC_SEQ_CST);
  CUdeviceptr address = 0;
  works_ = t.ok("gate: cuMemHostGetDevicePointer",
                cu.cuMemHostGetDevicePointer_v2(&address, memory, 0)) &&
           t.ok("gate: cuStreamWaitValue32",
                cu.cuStreamWaitValue32_v2(stream, address, 1, CU_STREAM_WAIT_VALUE_EQ));
}

Gate::~Gate() { open(); }

void Gate::open() {
  if (word_ != nullptr) __atomic_store_n(word_, 1, __ATOMIC_SEQ_CST);
}

Peer::Peer(const std::function<int(int socket)>& work) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[0]);
    _exit(work(ends[1]));
  }
  close(ends[1]);
  socket_ = ends[0];
}

Peer::~Peer() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

int Peer::wait() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

bool send_bytes(int socket, const void* data, size_t bytes) {
  return send(socket, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

bool receive_bytes(int socket, void* data, size_t bytes) {
  return recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

bool send_fd(int socket, int fd) {
  char byte = 'f';
  iovec part{&byte, 1};
  std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_fd(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(socket, &message, 0) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

}  // namespace divvy::conformance
