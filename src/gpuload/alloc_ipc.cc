// Memory of another process, opened here. The other process is gpuload itself, started anew (a
// forked child of an initialised process has no usable driver), which allocates one chunk per byte
// it reads from its standard input and answers with the result and the handle on its standard
// output.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "gpuload/alloc_families.h"
#include "gpuload/modes.h"

namespace divvy::gpuload {
namespace {

struct Answer {
  uint32_t code = 0;
  CUipcMemHandle handle{};
};

bool write_all(int fd, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool read_all(int fd, void* data, size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

class Ipc final : public AllocFamily {
 public:
  explicit Ipc(const Session& session) : AllocFamily(session) {}
  ~Ipc() override { end_exporter(); }

  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    if (child_ < 0 || chunk != chunk_) {
      // Chunks of another size come from another exporter; those already open stay as they are.
      if (child_ >= 0) return CUDA_ERROR_OUT_OF_MEMORY;
      start_exporter(chunk);
    }
    Answer answer;
    const char request = 'a';
    if (!write_all(to_child_, &request, 1) || !read_all(from_child_, &answer, sizeof answer)) {
      throw NoDriver("the process that exports memory ended early");
    }
    if (answer.code != 0) return static_cast<CUresult>(answer.code);
    CUdeviceptr pointer = 0;
    const CUresult code =
        cu_.cuIpcOpenMemHandle_v2(&pointer, answer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(pointer);
    obtained = chunk;
    return code;
  }

  void give_back() override {
    for (const CUdeviceptr pointer : held_) CU_CALL(cu_, cuIpcCloseMemHandle, pointer);
    held_.clear();
    end_exporter();
  }

 private:
  void start_exporter(uint64_t chunk) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    if (pipe2(down.data(), O_CLOEXEC) != 0 || pipe2(up.data(), O_CLOEXEC) != 0) {
      throw NoDriver("no pipe could be made for the process that exports memory");
    }
    const std::string device = std::to_string(session_.ordinal);
    const std::string bytes = std::to_string(chunk);
    const char* arguments[] = {"gpuload", "serve-ipc",   "--device", device.c_str(),
                               "--chunk", bytes.c_str(), nullptr};
    child_ = fork();
    if (child_ == 0) {
      dup2(down[0], STDIN_FILENO);
      dup2(up[1], STDOUT_FILENO);
      execv("/proc/self/exe", const_cast<char* const*>(arguments));
      _exit(127);
    }
    close(down[0]);
    close(up[1]);
    to_child_ = down[1];
    from_child_ = up[0];
    chunk_ = chunk;
    if (child_ < 0) throw NoDriver("the process that exports memory could not be started");
  }

  void end_exporter() {
    if (child_ < 0) return;
    close(to_child_);
    close(from_child_);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  pid_t child_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  uint64_t chunk_ = 0;
  std::vector<CUdeviceptr> held_;
};

}  // namespace

std::unique_ptr<AllocFamily> make_ipc_family(const Session& session) {
  return std::make_unique<Ipc>(session);
}

void serve_ipc_memory(const Session& session, uint64_t chunk) {
  char request = 0;
  while (read_all(STDIN_FILENO, &request, 1)) {
    Answer answer;
    CUdeviceptr pointer = 0;
    CUresult code = session.cu.cuMemAlloc_v2(&pointer, chunk);
    if (code == CUDA_SUCCESS) code = session.cu.cuIpcGetMemHandle(&answer.handle, pointer);
    answer.code = static_cast<uint32_t>(code);
    if (!write_all(STDOUT_FILENO, &answer, sizeof answer)) return;
  }
}

}  // namespace divvy::gpuload
