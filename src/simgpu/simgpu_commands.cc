#include "simgpu/simgpu_commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <ostream>

#include "abi/nvml.h"
#include "simgpu/catalogue.h"
#include "simgpu/fault.h"
#include "simgpu/manual_clock.h"
#include "simgpu/quantity.h"

namespace divvy::simgpu {
namespace {

std::optional<uint64_t> number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The codes that a test most often wants; any other one is given by its number.
constexpr struct {
  const char* name;
  nvmlReturn_t code;
} kCodes[] = {{"not-supported", NVML_ERROR_NOT_SUPPORTED},
              {"no-permission", NVML_ERROR_NO_PERMISSION},
              {"timeout", NVML_ERROR_TIMEOUT},
              {"lost", NVML_ERROR_GPU_IS_LOST},
              {"reset-required", NVML_ERROR_RESET_REQUIRED},
              {"unknown", NVML_ERROR_UNKNOWN}};

std::optional<uint32_t> nvml_code(const std::string& text) {
  for (const auto& known : kCodes) {
    if (text == known.name) return known.code;
  }
  const auto value = number(text);
  if (!value || *value == 0 || *value > NVML_ERROR_UNKNOWN) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

struct Call {
  SharedState& state;
  int gpu;
  const std::vector<std::string>& arguments;
  std::string wrong;  // what is wrong with the arguments, when something is
};

// Reads the one number that most kinds take.
std::optional<uint64_t> only_number(Call& call, const char* what, uint64_t lowest,
                                    uint64_t highest) {
  const auto value = call.arguments.size() == 1 ? number(call.arguments[0]) : std::nullopt;
  if (value && *value >= lowest && *value <= highest) return value;
  call.wrong = std::string("needs ") + what + " from " + std::to_string(lowest) + " to " +
               std::to_string(highest);
  return std::nullopt;
}

void do_xid(Call& call) {
  if (const auto xid = only_number(call, "an XID", 1, 9999)) inject_xid(call.state, call.gpu, *xid);
}
void do_lost(Call& call) { lose_gpu(call.state, call.gpu); }
void do_restore(Call& call) { restore_gpu(call.state, call.gpu); }
void do_ecc(Call& call) { inject_uncorrected_ecc(call.state, call.gpu); }
void do_ecc_corrected(Call& call) {
  if (const auto count = only_number(call, "a number of errors", 1, 1'000'000'000)) {
    inject_corrected_ecc(call.state, call.gpu, *count);
  }
}
void do_remap(Call& call) {
  if (const auto rows = only_number(call, "a number of rows", 0, 512)) {
    const Faults& faults = call.state.gpu(call.gpu).faults;
    set_row_remap(call.state, call.gpu,
                  {.remapped = static_cast<uint32_t>(*rows),
                   .pending = faults.remap_pending.load() != 0,
                   .failed = faults.remap_failed.load() != 0});
  }
}
void do_remap_pending(Call& call) {
  const Faults& faults = call.state.gpu(call.gpu).faults;
  set_row_remap(call.state, call.gpu,
                {.remapped = faults.remapped_rows.load(),
                 .pending = true,
                 .failed = faults.remap_failed.load() != 0});
}
void do_remap_failed(Call& call) {
  const Faults& faults = call.state.gpu(call.gpu).faults;
  set_row_remap(call.state, call.gpu,
                {.remapped = faults.remapped_rows.load(),
                 .pending = faults.remap_pending.load() != 0,
                 .failed = true});
}
void do_hot(Call& call) {
  if (const auto celsius = only_number(call, "a temperature in Celsius", 1, 200)) {
    set_temperature(call.state, call.gpu, static_cast<int>(*celsius));
  }
}
void do_hang(Call& call) { hang_gpu(call.state, call.gpu); }
void do_unhang(Call& call) { unhang_gpu(call.state, call.gpu); }
void do_clear(Call& call) { clear_faults(call.state, call.gpu); }

void do_deny(Call& call) {
  std::string names;
  for (const std::string& name : query_class_names()) names += (names.empty() ? "" : ", ") + name;
  const size_t given = call.arguments.size();
  const auto queries = given > 0 ? query_class_named(call.arguments[0]) : std::nullopt;
  if (!queries || given > 2) {
    call.wrong = "needs one of " + names + ", and may be given an NVML code";
    return;
  }
  const auto code = nvml_code(given == 2 ? call.arguments[1] : "unknown");
  if (!code) {
    call.wrong = "needs an NVML code from 1 to 999 or a name such as not-supported, not '" +
                 call.arguments[1] + "'";
    return;
  }
  fail_queries(call.state, call.gpu, *queries, *code);
}

constexpr struct Kind {
  const char* name;
  const char* arguments;
  const char* what;
  size_t most_arguments;
  void (*apply)(Call&);
} kKinds[] = {
    {"xid", "N", "report an XID; the GPU goes on", 1, do_xid},
    {"lost", "", "fall off the bus (XID 79)", 0, do_lost},
    {"restore", "", "come back onto the bus", 0, do_restore},
    {"ecc", "", "an uncorrected memory error (XID 48)", 0, do_ecc},
    {"ecc-corrected", "N", "N corrected memory errors", 1, do_ecc_corrected},
    {"remap", "N", "N rows of memory were remapped", 1, do_remap},
    {"remap-pending", "", "a row waits for a reset to be remapped", 0, do_remap_pending},
    {"remap-failed", "", "a row could not be remapped", 0, do_remap_failed},
    {"hot", "CELSIUS", "hold the temperature there", 1, do_hot},
    {"hang", "", "every call about the GPU blocks", 0, do_hang},
    {"unhang", "", "calls go on", 0, do_unhang},
    {"deny", "QUERY [CODE]", "one class of NVML queries fails", 2, do_deny},
    {"clear", "", "take every fault back", 0, do_clear},
};

// A GPU by its index or its UUID; -1 when there is none such.
int find_gpu(SharedState& state, const std::string& text) {
  const auto index = number(text);
  for (int i = 0; i < state.gpu_count(); ++i) {
    if ((index && *index == static_cast<uint64_t>(i)) || text == state.gpu(i).spec.uuid) return i;
  }
  return -1;
}

}  // namespace

bool export_source(const Source& source, std::string* error) {
  if (!source.gpus.empty() && !source.config.empty()) {
    *error = "--gpus and --config both say what GPUs there are; give one of them";
    return false;
  }
  if (!source.gpus.empty()) {
    setenv("DIVVY_SIM_GPUS", source.gpus.c_str(), 1);
    unsetenv("DIVVY_SIM_CONFIG");
  }
  if (!source.config.empty()) {
    // The command may run in another folder.
    std::error_code code;
    const auto path = std::filesystem::absolute(source.config, code);
    setenv("DIVVY_SIM_CONFIG", code ? source.config.c_str() : path.c_str(), 1);
    unsetenv("DIVVY_SIM_GPUS");
  }
  if (!source.state.empty()) setenv("DIVVY_SIM_STATE", source.state.c_str(), 1);
  return true;
}

std::unique_ptr<SharedState> find_state(std::string* error) {
  const Environment environment = process_environment();
  if (environment("DIVVY_SIM_GPUS") || environment("DIVVY_SIM_CONFIG")) {
    return std::unique_ptr<SharedState>(SharedState::open(error));
  }
  return std::unique_ptr<SharedState>(SharedState::attach(state_path(environment), error));
}

int fault_command(SharedState& state, const std::string& gpu, const std::vector<std::string>& words,
                  std::ostream& out, std::ostream& err) {
  const int index = find_gpu(state, gpu);
  if (index < 0) {
    err << "simgpu: there is no GPU '" << gpu << "'; `simgpu list` shows the " << state.gpu_count()
        << " that are simulated\n";
    return kMisused;
  }
  if (words.empty()) {
    err << "simgpu: the kind of fault is missing\n" << fault_kinds_help();
    return kMisused;
  }
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    names.emplace_back(kind.name);
    if (words[0] != kind.name) continue;
    const std::vector<std::string> arguments(words.begin() + 1, words.end());
    Call call{.state = state, .gpu = index, .arguments = arguments, .wrong = ""};
    if (arguments.size() > kind.most_arguments) {
      call.wrong = "has an argument too many: '" + arguments.back() + "'";
    } else {
      kind.apply(call);
    }
    if (!call.wrong.empty()) {
      err << "simgpu: the fault '" << kind.name << "' " << call.wrong << "\n";
      return kMisused;
    }
    const std::vector<std::string> now = describe_faults(state.gpu(index));
    out << "GPU " << index << ": " << kind.name << " is done; its faults now: ";
    for (const std::string& fault : now) out << (&fault == &now[0] ? "" : ", ") << fault;
    out << (now.empty() ? "none\n" : "\n");
    return kDone;
  }
  const std::string near = nearest_name(words[0], names);
  err << "simgpu: there is no fault '" << words[0] << "'"
      << (near.empty() ? "" : "; did you mean '" + near + "'?") << "\n";
  if (near.empty()) err << fault_kinds_help();
  return kMisused;
}

std::string fault_kinds_help() {
  std::string text = "Kinds of fault:\n";
  for (const Kind& kind : kKinds) {
    std::string line = std::string("  ") + kind.name + " " + kind.arguments;
    line.resize(std::max<size_t>(line.size(), 22), ' ');
    text += line + "  " + kind.what + "\n";
  }
  return text;
}

int show_clock_command(SharedState& state, std::ostream& out) {
  const bool manual = state.shared().clock_mode == static_cast<uint32_t>(ClockMode::kManual);
  const uint64_t now = now_ns(state.shared());
  char seconds[48];
  snprintf(seconds, sizeof(seconds), "%llu.%09llu s",
           static_cast<unsigned long long>(now / 1'000'000'000),
           static_cast<unsigned long long>(now % 1'000'000'000));
  out << (manual ? "manual" : "real") << " clock, at " << seconds << "\n";
  return kDone;
}

int advance_clock_command(SharedState& state, const std::string& step, std::ostream& out,
                          std::ostream& err) {
  std::string error;
  const auto step_ns = parse_duration_ns(step, &error);
  if (!step_ns) {
    err << "simgpu: " << error << "\n";
    return kMisused;
  }
  if (!advance_manual_clock(state, *step_ns, &error)) {
    err << "simgpu: " << error << "\n";
    return kFailed;
  }
  return show_clock_command(state, out);
}

int reset_command(const Environment& environment, std::ostream& out, std::ostream& err) {
  const std::string path = state_path(environment);
  if (SharedState::remove(path)) {
    out << "removed " << path << "; programs that still run keep their old GPUs\n";
    return kDone;
  }
  if (errno == ENOENT) {
    out << "there is nothing at " << path << " to remove\n";
    return kDone;
  }
  err << "simgpu: " << path << " cannot be removed: " << strerror(errno) << "\n";
  return kFailed;
}

}  // namespace divvy::simgpu
