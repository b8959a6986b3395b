// The files of the GPU driver that a container needs: an image has none of them, because they have
// to be of exactly the version of the kernel module of the machine that it runs on.
//
// Looks at the file system only, never asks the driver. Callable from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "inject/elf_file.h"
#include "inject/root_folder.h"
#include "model/pci_address.h"

namespace divvy::inject {

// What containers are to do with the GPU: compute, or also draw, encode and decode.
enum class DriverUse { kCompute, kGraphics };

struct DriverRoots {
  RootFolder driver;  // Where the driver is installed: "/", or /run/nvidia/driver and the like
  RootFolder host;    // Whose /dev, /proc and /sys count
};

struct DriverLibrary {
  std::filesystem::path file;    // On this machine, no link
  std::filesystem::path inside;  // In the driver's root
  Machine machine = Machine::kOther;
  std::string soname;     // What programs load; the file's own name where it has no other
  std::string subfolder;  // "vdpau", or empty
};

struct DriverFile {
  std::filesystem::path file;    // On this machine, no link
  std::filesystem::path inside;  // In the driver's root, and in a container
};

struct DriverFiles {
  std::string version;  // "580.159.04"
  std::vector<DriverLibrary> libraries;
  std::vector<DriverFile> programs;
  std::vector<DriverFile> data;     // Firmware; for graphics also what tells loaders of it
  std::vector<DriverFile> sockets;  // Of its daemons, as far as they run
};

// The version of the kernel module that is loaded; nothing when none is.
[[nodiscard]] std::optional<std::string> loaded_driver_version(const RootFolder& host);

// The files of the loaded version, or where none is loaded of the one that libcuda.so.1 leads to.
// kNotFound when there are no such files: no driver, or one that is being replaced.
[[nodiscard]] Result<DriverFiles> find_driver_files(const DriverRoots& roots, DriverUse use);

// Where programs of the machine look without a cache. 32-bit libraries go only where no 64-bit ones
// can be: where /usr/lib64 is a link to /usr/lib, one would hide the other.
[[nodiscard]] std::vector<std::filesystem::path> usual_library_folders(Machine machine);

// The device files that every GPU needs (/dev/nvidiactl ...), as far as they exist.
[[nodiscard]] std::vector<std::filesystem::path> common_device_files(const RootFolder& host);

struct GpuPlace {
  std::optional<std::uint32_t> minor_number;
  std::optional<model::PciAddress> pci;
};
// Those of one GPU: /dev/nvidiaN and, for graphics, its files in /dev/dri. kNotFound without the
// first. Parts of a GPU by MIG (/dev/nvidia-caps) are not looked for.
[[nodiscard]] Result<std::vector<std::filesystem::path>> gpu_device_files(const RootFolder& host,
                                                                          const GpuPlace& gpu,
                                                                          DriverUse use);

}  // namespace divvy::inject
