#include "inject/container_edits.h"

#include <fmt/format.h>

#include <iterator>

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> read_only() { return {"ro", "nosuid", "nodev", "rbind", "rprivate"}; }

std::vector<std::string> socket_options() {
  return {"nosuid", "nodev", "rbind", "rprivate", "noexec"};
}

// Sockets and pipes can be used all the same; nobody can remove them, the container's root neither.
std::vector<std::string> read_only_sockets() {
  return {"ro", "nosuid", "nodev", "rbind", "rprivate", "noexec"};
}

void mount_library(CdiEdits& edits, const fs::path& file, Machine machine, const fs::path& name) {
  for (const fs::path& folder : usual_library_folders(machine)) {
    edits.mounts.push_back({file.string(), (folder / name).string(), read_only()});
  }
}

std::string joined(const std::vector<model::GpuUuid>& gpus) {
  std::string list;
  for (const model::GpuUuid& gpu : gpus) {
    if (!list.empty()) list += ',';
    list += gpu.str();
  }
  return list;
}

}  // namespace

CdiEdits driver_edits(const DriverFiles& files) {
  CdiEdits edits;
  // NVIDIA's own hook, where one is installed, is to keep its hands off.
  edits.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
  for (const DriverLibrary& library : files.libraries) {
    mount_library(edits, library.file, library.machine,
                  fs::path(library.subfolder) / library.soname);
    // Some programs load it by the name that only compilers should need.
    if (library.soname == "libcuda.so.1") {
      mount_library(edits, library.file, library.machine, "libcuda.so");
    }
  }
  for (const auto* group : {&files.programs, &files.data}) {
    for (const DriverFile& file : *group) {
      edits.mounts.push_back({file.file.string(), file.inside.string(), read_only()});
    }
  }
  for (const DriverFile& socket : files.sockets) {
    edits.mounts.push_back({socket.file.string(), socket.inside.string(), socket_options()});
  }
  return edits;
}

CdiEdits simulated_driver_edits(const SimulatedDriver& driver) {
  CdiEdits edits;
  edits.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
  edits.env.push_back(fmt::format("DIVVY_SIM_STATE={}", kSimulatedStateInContainer));
  const Machine machine =
      read_shared_library(driver.libraries / "libcuda.so.1").value_or(SharedLibrary{}).machine;
  for (const char* name : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    mount_library(edits, driver.libraries / name, machine, name);
  }
  if (const auto folders = usual_library_folders(machine); !folders.empty()) {
    // `divvy` in the container would look beside itself.
    edits.env.push_back(fmt::format("DIVVY_SIM_LIBRARIES={}", folders.front().string()));
  }
  for (const char* ending : {"", ".alive"}) {
    edits.mounts.push_back({driver.state.string() + ending,
                            std::string(kSimulatedStateInContainer) + ending, socket_options()});
  }
  return edits;
}

std::vector<CdiDeviceNode> device_nodes(const RootFolder& host,
                                        const std::vector<fs::path>& devices) {
  std::vector<CdiDeviceNode> nodes;
  for (const fs::path& device : devices) {
    const fs::path there = host.folder() / device.relative_path();
    nodes.push_back({device.string(), there == device ? "" : there.string()});
  }
  return nodes;
}

CdiEdits slice_edits(const HeldSlice& slice, const SliceFiles& files) {
  CdiEdits edits;
  edits.env = {fmt::format("DIVVY_SOCKET={}/{}", kSliceFolderInContainer, slice.socket_name),
               fmt::format("CUDA_VISIBLE_DEVICES={}", joined(slice.gpus))};
  edits.mounts = {{slice.socket_folder.string(), kSliceFolderInContainer, socket_options()},
                  {files.shim.string(), kShimInContainer, read_only()},
                  {files.preload.string(), "/etc/ld.so.preload", read_only()}};
  if (slice.socket_wait_seconds != 0) {
    edits.env.push_back(fmt::format("DIVVY_SOCKET_WAIT={}", slice.socket_wait_seconds));
  }
  if (slice.mps) {
    edits.env.push_back(fmt::format("CUDA_MPS_PIPE_DIRECTORY={}", kMpsPipesInContainer));
    edits.env.push_back(
        fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", slice.mps->thread_percentage));
    edits.mounts.push_back(
        {slice.mps->pipe_folder.string(), kMpsPipesInContainer, read_only_sockets()});
  }
  return edits;
}

void append(CdiEdits& to, CdiEdits from) {
  const auto move_all = [](auto& into, auto& out_of) {
    into.insert(into.end(), std::make_move_iterator(out_of.begin()),
                std::make_move_iterator(out_of.end()));
  };
  move_all(to.env, from.env);
  move_all(to.device_nodes, from.device_nodes);
  move_all(to.mounts, from.mounts);
}

}  // namespace divvy::inject
