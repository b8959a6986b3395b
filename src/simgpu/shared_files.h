// Files of simulated GPU memory that processes share: how they are named, recognised and mapped.
//
// A memfd carries its name wherever its descriptor goes, so a process that is handed one can tell
// whether it is memory of a simulated GPU and of which. Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "simgpu/memory.h"

namespace divvy::simgpu {

constexpr char kArenaFilePrefix[] = "divvy-simgpu:";     // all the memory of a process on a GPU
constexpr char kPhysicalFilePrefix[] = "divvy-simvmm:";  // one exportable VMM allocation

// The GPU whose memory a descriptor is; nothing for any other file.
std::optional<int> gpu_of_file(int fd, const char* prefix);
// The device by which this process knows a GPU, -1 when it is not visible here.
int device_of_gpu(Driver& driver, int gpu);
// Maps a stretch of a file, whole slabs around it included, and fills in `import`. Returns the
// address of `offset`, 0 on failure or when the file is shorter.
uint64_t map_shared_range(int fd, uint64_t offset, uint64_t size, IpcImport* import);

}  // namespace divvy::simgpu
