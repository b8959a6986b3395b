// What a container is given so that its programs find the driver, a GPU or a slice: the driver's
// files and device files become CDI edits. Pure, callable from any thread.
//
// Every library is mounted under the name that programs load, into the folders in which the dynamic
// linkers of Debian's and of Red Hat's relatives look by themselves. So neither the image nor a
// hook needs to run ldconfig, and LD_LIBRARY_PATH stays the image's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inject/cdi_spec.h"
#include "inject/driver_files.h"
#include "model/gpu_uuid.h"

namespace divvy::inject {

constexpr const char* kGpuKind = "divvy.dev/gpu";
constexpr const char* kSliceKind = "divvy.dev/slice";
constexpr const char* kClaimKind = "divvy.dev/claim";
constexpr const char* kSlotKind = "divvy.dev/slot";

// Where things are in a container.
constexpr const char* kShimInContainer = "/usr/local/lib/divvy/libdivvy.so";
constexpr const char* kSliceFolderInContainer = "/run/divvy/slice";
constexpr const char* kMpsPipesInContainer = "/run/divvy/mps";
constexpr const char* kSimulatedStateInContainer = "/run/divvy/simgpu/state";

// The simulated driver, in place of the machine's own.
struct SimulatedDriver {
  std::filesystem::path libraries;  // The folder of libcuda.so.1 and libnvidia-ml.so.1
  std::filesystem::path state;      // What the processes on the same simulated GPUs share
};

// Libraries, programs, data and sockets.
[[nodiscard]] CdiEdits driver_edits(const DriverFiles& files);
[[nodiscard]] CdiEdits simulated_driver_edits(const SimulatedDriver& driver);
// In a root of another folder than "/" the files are there and not at the same path.
[[nodiscard]] std::vector<CdiDeviceNode> device_nodes(
    const RootFolder& host, const std::vector<std::filesystem::path>& devices);

// How programs in a container reach the MPS daemon of their GPU.
struct MpsClient {
  std::filesystem::path pipe_folder;  // On this machine
  std::uint32_t thread_percentage = 100;
};

struct HeldSlice {
  std::string name;
  std::filesystem::path socket_folder;  // On this machine
  std::string socket_name;              // In that folder
  std::vector<model::GpuUuid> gpus;
  std::optional<MpsClient> mps = std::nullopt;  // Of a slice in mode mps
  // How long programs that start wait for a daemon that is away; 0: as long as the shim does by
  // itself.
  std::uint32_t socket_wait_seconds = 0;
};
// What makes a container the tenant of a slice: the shim in every program, the socket, which GPUs
// CUDA shows, and in mode mps the way to the MPS daemon and the part of the threads.
//
// The shim comes by /etc/ld.so.preload rather than by LD_PRELOAD: that variable would replace the
// image's own, is lost where a program starts another with an empty environment, and ends programs
// of an image with another libc (musl), which does not read the file.
struct SliceFiles {
  std::filesystem::path shim;     // libdivvy.so
  std::filesystem::path preload;  // A file with kShimInContainer in it
};
[[nodiscard]] CdiEdits slice_edits(const HeldSlice& slice, const SliceFiles& files);

void append(CdiEdits& to, CdiEdits from);

}  // namespace divvy::inject
