// gpuload: a load generator on the CUDA driver API, the same on real and simulated GPUs. This file
// only joins the command line, the session, the mode and the report (docs/gpuload.md).

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "gpuload/command_line.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

constexpr int kFailed = 1;
constexpr int kBadOptions = 2;

void describe_device(const DriverApi& cu, const Session& session, Report& report) {
  char name[96] = {};
  CUuuid uuid{};
  CU_CALL(cu, cuDeviceGetName, name, 95, session.device);
  CU_CALL(cu, cuDeviceGetUuid_v2, &uuid, session.device);
  report.set("index", session.ordinal);
  report.set("name", std::string(name));
  report.set("uuid", uuid_text(uuid));
}

struct RunMode {
  const Session& session;
  Report& report;
  void operator()(const InfoOptions&) const { run_info(session, report); }
  void operator()(const SpinOptions& options) const { run_spin(session, options, report); }
  void operator()(const LoopOptions& options) const { run_loop(session, options, report); }
  void operator()(const CostOptions& options) const { run_cost(session, options, report); }
  void operator()(const LaunchOptions& options) const { run_launch(session, options, report); }
  void operator()(const PoissonOptions& options) const { run_poisson(session, options, report); }
  void operator()(const MemoryOptions& options) const { run_memory(session, options, report); }
  void operator()(const CopyOptions& options) const { run_copy(session, options, report); }
  void operator()(const GraphOptions& options) const { run_graph(session, options, report); }
  void operator()(const AllocOptions& options) const { run_alloc(session, options, report); }
  void operator()(const ThreadsOptions& options) const { run_threads(session, options, report); }
  void operator()(const MixOptions& options) const { run_mix(session, options, report); }
  void operator()(const ServeIpcOptions& options) const {
    serve_ipc_memory(session, options.chunk);
  }
  void operator()(const ForkOptions&) const {}  // runs without a session
};

bool write_report(const CommandLine& command, const Report& report) {
  if (command.quiet) return true;
  const std::string text = command.text ? report.text() : report.json();
  if (command.out.empty()) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
           std::fflush(stdout) == 0;
  }
  std::FILE* file = std::fopen(command.out.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

void run(const CommandLine& command, Report& report) {
  const DriverApi cu = DriverApi::load();
  report.set("mode", command.mode);
  if (std::holds_alternative<ForkOptions>(command.options)) {
    run_fork(cu, command.device, report);
    return;
  }
  const Session session(cu, command.device);
  describe_device(cu, session, report.object("device"));
  std::visit(RunMode{session, report}, command.options);
}

int start(int argc, const char* const* argv) {
  auto parsed = parse_command_line(argc, argv);
  if (const auto* help = std::get_if<CommandLineHelp>(&parsed)) {
    fmt::print("{}", help->text);
    return 0;
  }
  if (const auto* mistake = std::get_if<CommandLineMistake>(&parsed)) {
    fmt::print(stderr, "gpuload: {}\n", mistake->sentence);
    return kBadOptions;
  }
  CommandLine command = std::get<CommandLine>(std::move(parsed));
  if (std::holds_alternative<ServeIpcOptions>(command.options)) command.quiet = true;
  install_stop_signals();
  Report report;
  run(command, report);
  if (!write_report(command, report)) {
    fmt::print(stderr, "gpuload: the report could not be written to {}\n",
               command.out.empty() ? "standard output" : command.out);
    return kFailed;
  }
  return 0;
}

}  // namespace
}  // namespace divvy::gpuload

int main(int argc, char** argv) {
  try {
    return divvy::gpuload::start(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpuload: {}\n", error.what());
    return divvy::gpuload::kFailed;
  }
}
