// `simgpu list`: the simulated GPUs and who is on them, as a table or as JSON.
#include <stdio.h>

#include <algorithm>
#include <ostream>
#include <sstream>

#include "simgpu/fault.h"
#include "simgpu/quantity.h"
#include "simgpu/readings.h"
#include "simgpu/simgpu_commands.h"

namespace divvy::simgpu {
namespace {

struct ProcessRow {
  int gpu;
  int pid;
  std::string name;
  uint64_t used_bytes;
  uint32_t contexts;
};

std::vector<ProcessRow> processes(SharedState& state) {
  state.reap();
  Shared& shared = state.shared();
  std::vector<ProcessRow> rows;
  Locked lock(shared.table_lock);
  for (int gpu = 0; gpu < state.gpu_count(); ++gpu) {
    for (uint32_t i = 0; i < shared.slot_high; ++i) {
      const ProcessSlot& slot = shared.slot[i];
      const ProcessOnGpu& on = slot.gpu[gpu];
      if (slot.state.load() != static_cast<uint32_t>(SlotState::kClaimed)) continue;
      if (on.contexts.load() == 0) continue;
      rows.push_back({.gpu = gpu,
                      .pid = state.pid_of(static_cast<int>(i)),
                      .name = slot.name,
                      .used_bytes = on.used_bytes.load(),
                      .contexts = on.contexts.load()});
    }
  }
  return rows;
}

// Columns as wide as their widest cell; the last one is not padded.
void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out << row[i];
      if (i + 1 < row.size()) out << std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out << "\n";
  }
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

void print_text(SharedState& state, const std::vector<ProcessRow>& running, std::ostream& out) {
  const Shared& shared = state.shared();
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "MODEL", "PCI", "NUMA", "MEMORY", "UTIL", "TEMP", "POWER", "FAULTS"}};
  for (int i = 0; i < state.gpu_count(); ++i) {
    const Gpu& gpu = state.gpu(i);
    const std::vector<std::string> faults = describe_faults(gpu);
    rows.push_back({std::to_string(i), gpu.spec.name, gpu.spec.pci,
                    gpu.spec.numa_node < 0 ? "-" : std::to_string(gpu.spec.numa_node),
                    format_size(state.used_bytes(i)) + " / " + format_size(gpu.spec.memory_bytes),
                    std::to_string(utilization_percent(shared, gpu)) + " %",
                    std::to_string(temperature_c(shared, gpu)) + " C",
                    std::to_string(power_mw(shared, gpu) / 1000) + " W",
                    faults.empty() ? "-" : joined(faults, ", ")});
  }
  print_table(rows, out);
  if (running.empty()) return;
  rows = {{"GPU", "PID", "PROCESS", "MEMORY", "CONTEXTS"}};
  for (const ProcessRow& row : running) {
    rows.push_back({std::to_string(row.gpu), std::to_string(row.pid), row.name,
                    format_size(row.used_bytes), std::to_string(row.contexts)});
  }
  out << "\n";
  print_table(rows, out);
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_gpu(SharedState& state, int index, const std::vector<ProcessRow>& running) {
  const Shared& shared = state.shared();
  const Gpu& gpu = state.gpu(index);
  std::vector<std::string> faults;
  for (const std::string& fault : describe_faults(gpu)) faults.push_back(json_text(fault));
  std::vector<std::string> holders;
  for (const ProcessRow& row : running) {
    if (row.gpu != index) continue;
    std::ostringstream text;
    text << "{\"pid\": " << row.pid << ", \"name\": " << json_text(row.name)
         << ", \"memory_bytes\": " << row.used_bytes << ", \"contexts\": " << row.contexts << "}";
    holders.push_back(text.str());
  }
  std::ostringstream text;
  text << "{\"index\": " << index << ", \"name\": " << json_text(gpu.spec.name)
       << ", \"uuid\": " << json_text(gpu.spec.uuid) << ", \"pci\": " << json_text(gpu.spec.pci)
       << ", \"numa_node\": " << gpu.spec.numa_node
       << ", \"memory_total_bytes\": " << gpu.spec.memory_bytes
       << ", \"memory_used_bytes\": " << state.used_bytes(index)
       << ", \"utilization_percent\": " << utilization_percent(shared, gpu)
       << ", \"temperature_c\": " << temperature_c(shared, gpu)
       << ", \"power_mw\": " << power_mw(shared, gpu) << ", \"faults\": [" << joined(faults, ", ")
       << "], \"processes\": [" << joined(holders, ", ") << "]}";
  return text.str();
}

}  // namespace

int list_command(SharedState& state, bool json, std::ostream& out) {
  const std::vector<ProcessRow> running = processes(state);
  if (!json) {
    print_text(state, running, out);
    return kDone;
  }
  std::vector<std::string> gpus;
  gpus.reserve(static_cast<size_t>(state.gpu_count()));
  for (int i = 0; i < state.gpu_count(); ++i) gpus.push_back(json_gpu(state, i, running));
  const bool manual = state.shared().clock_mode == static_cast<uint32_t>(ClockMode::kManual);
  out << "{\"state\": " << json_text(state.path())
      << ", \"driver\": " << json_text(state.shared().driver_version)
      << ", \"clock\": " << (manual ? "\"manual\"" : "\"real\"") << ", \"gpus\": [\n  "
      << joined(gpus, ",\n  ") << "\n]}\n";
  return kDone;
}

}  // namespace divvy::simgpu
