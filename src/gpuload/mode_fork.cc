// What a forked child sees of the driver: when it starts the driver itself, and when its parent had
// already done so.

#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "gpuload/modes.h"

namespace divvy::gpuload {
namespace {

constexpr uint32_t kNotAnswered = 0xffffffff;

// What each call answered in the child, in the order in which it made them.
struct ChildCodes {
  uint32_t init = kNotAnswered;
  uint32_t device_count = kNotAnswered;
  uint32_t current_context = kNotAnswered;
  uint32_t retain = kNotAnswered;
  uint32_t set_current = kNotAnswered;
  uint32_t memory_info = kNotAnswered;
  uint32_t allocate = kNotAnswered;
  uint32_t free = kNotAnswered;
};

ChildCodes use_driver(const DriverApi& cu, int ordinal) {
  ChildCodes codes;
  const auto number = [](CUresult code) { return static_cast<uint32_t>(code); };
  int count = 0;
  CUcontext context = nullptr;
  size_t free = 0;
  size_t total = 0;
  CUdeviceptr pointer = 0;
  codes.init = number(cu.cuInit(0));
  codes.device_count = number(cu.cuDeviceGetCount(&count));
  codes.current_context = number(cu.cuCtxGetCurrent(&context));
  codes.retain = number(cu.cuDevicePrimaryCtxRetain(&context, ordinal));
  codes.set_current = number(cu.cuCtxSetCurrent(context));
  codes.memory_info = number(cu.cuMemGetInfo_v2(&free, &total));
  codes.allocate = number(cu.cuMemAlloc_v2(&pointer, 1U << 20U));
  codes.free = number(cu.cuMemFree_v2(pointer));
  return codes;
}

// Runs the calls in a child. `status` is what waitpid said of it.
ChildCodes in_child(const DriverApi& cu, int ordinal, int& status) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw NoDriver("no pipe could be made for the child");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const ChildCodes codes = use_driver(cu, ordinal);
    const bool sent = write(ends[1], &codes, sizeof codes) == static_cast<ssize_t>(sizeof codes);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  ChildCodes codes;
  if (read(ends[0], &codes, sizeof codes) != static_cast<ssize_t>(sizeof codes)) codes = {};
  close(ends[0]);
  waitpid(child, &status, 0);
  return codes;
}

void write_codes(const DriverApi& cu, const ChildCodes& codes, int status, Report& report) {
  const auto field = [&](const char* name, uint32_t code) {
    report.set(name, code == kNotAnswered ? std::string("no answer")
                                          : cu.error_name(static_cast<CUresult>(code)));
  };
  field("init", codes.init);
  field("device_count", codes.device_count);
  field("current_context", codes.current_context);
  field("retain", codes.retain);
  field("set_current", codes.set_current);
  field("memory_info", codes.memory_info);
  field("allocate", codes.allocate);
  field("free", codes.free);
  report.set("ended_normally", WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

void run_fork(const DriverApi& api, int ordinal, Report& report) {
  int status = 0;
  ChildCodes codes = in_child(api, ordinal, status);
  write_codes(api, codes, status, report.object("child_before_init"));
  report.set("fresh_child_works", codes.allocate == 0 && codes.free == 0);

  const Session session(api, ordinal);
  codes = in_child(api, ordinal, status);
  write_codes(api, codes, status, report.object("child_after_init"));

  // The parent must not have noticed.
  const DeviceBuffer buffer(session, 1U << 20U);
  const Stream stream(session);
  KernelLaunch fill(session, LaunchKind::kPlain, session.fill32, {1, 256},
                    {buffer.get(), 16, 0xabcdU});
  fill.launch(stream.get());
  stream.synchronize();
  uint32_t word = 0;
  CU_CALL(api, cuMemcpyDtoH_v2, &word, buffer.get(), sizeof word);
  report.set("parent_works_after_fork", word == 0xabcdU);
}

}  // namespace divvy::gpuload
