#include "inject/driver_files.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "inject/ldcache.h"

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCacheBytes = 16 << 20;
constexpr std::size_t kLongestVersion = 32;

// Where distributions keep libraries, for a driver that the linker's cache does not know of.
constexpr std::array kLibraryFolders = {"/usr/lib/x86_64-linux-gnu",
                                        "/usr/lib/x86_64-linux-gnu/nvidia/current",
                                        "/usr/lib/i386-linux-gnu",
                                        "/usr/lib/i386-linux-gnu/nvidia/current",
                                        "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib/aarch64-linux-gnu/nvidia/current",
                                        "/usr/lib/arm-linux-gnueabihf",
                                        "/usr/lib64",
                                        "/usr/lib32",
                                        "/usr/lib",
                                        "/lib64",
                                        "/lib"};

// What CUDA programs load, directly or through libcuda.
constexpr std::array<std::string_view, 8> kComputeLibraries = {
    "libcuda.so.",          "libcudadebugger.so.",
    "libnvidia-cfg.so.",    "libnvidia-gpucomp.so.",
    "libnvidia-ml.so.",     "libnvidia-nvvm.so.",
    "libnvidia-nvvm70.so.", "libnvidia-ptxjitcompiler.so."};

constexpr std::array kProgramFolders = {"/usr/bin", "/usr/sbin", "/bin", "/sbin"};
constexpr std::array kPrograms = {"nvidia-smi",
                                  "nvidia-debugdump",
                                  "nvidia-persistenced",
                                  "nvidia-cuda-mps-control",
                                  "nvidia-cuda-mps-server",
                                  "nvidia-imex",
                                  "nvidia-imex-ctl"};
constexpr std::array kFirmwareFolders = {"/lib/firmware", "/usr/lib/firmware",
                                         "/lib/firmware/updates"};
constexpr std::array kSockets = {"/run/nvidia-persistenced/socket",
                                 "/run/nvidia-fabricmanager/socket"};
constexpr std::array kGraphicsData = {
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/share/vulkan/icd.d/nvidia_icd.json",
    "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
    "/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
    "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "/usr/share/nvidia/nvoptix.bin",
    "/etc/OpenCL/vendors/nvidia.icd"};
constexpr std::array kCommonDevices = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                       "/dev/nvidia-modeset"};

// Digits and dots: it becomes part of paths.
bool is_version(std::string_view text) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return text.size() <= kLongestVersion && text.find('.') != std::string_view::npos &&
         text.front() != '.' && text.back() != '.' && std::ranges::all_of(text, plain) &&
         text.find("..") == std::string_view::npos;
}

// Where the driver's libraries may be, without links and each once.
std::vector<fs::path> library_folders(const RootFolder& root) {
  std::vector<fs::path> folders;
  if (const auto bytes = root.read("/etc/ld.so.cache", kMostCacheBytes)) {
    // A damaged cache is the linker's trouble; the usual folders are looked at all the same.
    for (const CachedLibrary& library :
         parse_ldcache(*bytes).value_or(std::vector<CachedLibrary>())) {
      if (library.name.starts_with("libcuda.so") || library.name.starts_with("libnvidia-")) {
        folders.push_back(fs::path(library.path).parent_path());
      }
    }
  }
  folders.insert(folders.end(), kLibraryFolders.begin(), kLibraryFolders.end());
  std::vector<fs::path> result;
  for (const fs::path& folder : folders) {
    const auto resolved = root.resolve(folder);
    if (!resolved || std::ranges::find(result, *resolved) != result.end()) continue;
    result.push_back(*resolved);
  }
  for (fs::path& folder : result) folder = root.inside(folder);
  return result;
}

// The version in the name of the file that libcuda.so.1 leads to.
std::optional<std::string> installed_version(const RootFolder& root,
                                             const std::vector<fs::path>& folders) {
  constexpr std::string_view kStart = "libcuda.so.";
  for (const fs::path& folder : folders) {
    const auto file = root.resolve(folder / "libcuda.so.1");
    if (!file) continue;
    const std::string name = file->filename().string();
    if (name.starts_with(kStart) && is_version(std::string_view(name).substr(kStart.size()))) {
      return name.substr(kStart.size());
    }
  }
  return std::nullopt;
}

bool is_wanted(std::string_view name, std::string_view version, std::string_view subfolder,
               DriverUse use) {
  // This one has a version of its own.
  const bool is_drivers =
      name.ends_with(fmt::format(".so.{}", version)) || name.starts_with("libnvidia-nvvm70.so.");
  if (!is_drivers) return false;
  if (use == DriverUse::kGraphics) return true;
  return subfolder.empty() &&
         std::ranges::any_of(kComputeLibraries,
                             [name](std::string_view start) { return name.starts_with(start); });
}

void add_libraries(DriverFiles& files, const RootFolder& root, const fs::path& folder,
                   std::string_view subfolder, DriverUse use) {
  for (const std::string& name : root.names_in(folder / subfolder)) {
    if (!is_wanted(name, files.version, subfolder, use)) continue;
    const auto file = root.resolve(folder / subfolder / name);
    std::error_code code;
    // A link and the file that it leads to are one library.
    if (!file || file->filename() != name || !fs::is_regular_file(*file, code)) continue;
    auto library = read_shared_library(*file);
    if (!library || library->machine == Machine::kOther) continue;
    if (library->soname.find('/') != std::string::npos) continue;
    files.libraries.push_back({.file = *file,
                               .inside = root.inside(*file),
                               .machine = library->machine,
                               .soname = library->soname.empty() ? name : library->soname,
                               .subfolder = std::string(subfolder)});
  }
}

void add_file(std::vector<DriverFile>& files, const RootFolder& root, const fs::path& inside) {
  if (const auto file = root.resolve(inside)) files.push_back({*file, inside});
}

void add_firmware(DriverFiles& files, const RootFolder& root) {
  std::set<fs::path> seen;
  for (const fs::path parent : kFirmwareFolders) {
    const fs::path folder = parent / "nvidia" / files.version;
    for (const std::string& name : root.names_in(folder)) {
      if (!name.starts_with("gsp") || !name.ends_with(".bin")) continue;
      const auto file = root.resolve(folder / name);
      if (file && seen.insert(*file).second) files.data.push_back({*file, folder / name});
    }
  }
}

// "card1", "renderD128": what /dev/dri calls the GPU at this address.
std::vector<fs::path> dri_files(const RootFolder& host, const model::PciAddress& pci) {
  std::vector<fs::path> result;
  const fs::path folder = fs::path("/sys/bus/pci/devices") / model::to_sysfs_name(pci) / "drm";
  for (const std::string& name : host.names_in(folder)) {
    if (!name.starts_with("card") && !name.starts_with("renderD")) continue;
    const fs::path device = fs::path("/dev/dri") / name;
    if (host.resolve(device)) result.push_back(device);
  }
  return result;
}

}  // namespace

std::optional<std::string> loaded_driver_version(const RootFolder& host) {
  const auto text = host.read("/sys/module/nvidia/version", 2 * kLongestVersion);
  if (!text) return std::nullopt;
  const std::string_view version = trim(*text);
  if (!is_version(version)) return std::nullopt;
  return std::string(version);
}

Result<DriverFiles> find_driver_files(const DriverRoots& roots, DriverUse use) {
  const RootFolder& root = roots.driver;
  const std::vector<fs::path> folders = library_folders(root);
  const auto loaded = loaded_driver_version(roots.host);
  const auto version = loaded ? loaded : installed_version(root, folders);
  if (!version) {
    return err(ErrorCode::kNotFound,
               "no NVIDIA driver is installed in {}: there is no libcuda.so.1 in it; install the "
               "driver, or say where it is",
               root.folder().string());
  }
  DriverFiles files;
  files.version = *version;
  for (const fs::path& folder : folders) {
    add_libraries(files, root, folder, "", use);
    add_libraries(files, root, folder, "vdpau", use);
  }
  const bool has_cuda = std::ranges::any_of(files.libraries, [](const DriverLibrary& library) {
    return library.soname.starts_with("libcuda.so");
  });
  if (!has_cuda) {
    return err(ErrorCode::kNotFound,
               "the libraries of driver {} are not in {}; was the driver replaced? Restart the "
               "machine, so that its kernel module is of the same version",
               *version, root.folder().string());
  }
  for (const char* program : kPrograms) {
    for (const fs::path folder : kProgramFolders) {
      const auto file = root.resolve(folder / program);
      if (!file) continue;
      files.programs.push_back({*file, fs::path("/usr/bin") / program});
      break;
    }
  }
  add_firmware(files, root);
  if (use == DriverUse::kGraphics) {
    for (const char* file : kGraphicsData) add_file(files.data, root, file);
  }
  for (const char* socket : kSockets) add_file(files.sockets, roots.host, socket);
  return files;
}

std::vector<fs::path> usual_library_folders(Machine machine) {
  switch (machine) {
    case Machine::kX86_64:
      return {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
    case Machine::kAarch64:
      return {"/usr/lib/aarch64-linux-gnu", "/usr/lib64"};
    case Machine::kI386:
      return {"/usr/lib/i386-linux-gnu"};
    case Machine::kArm:
      return {"/usr/lib/arm-linux-gnueabihf"};
    case Machine::kOther:
      break;
  }
  return {};
}

std::vector<fs::path> common_device_files(const RootFolder& host) {
  std::vector<fs::path> result;
  for (const char* device : kCommonDevices) {
    if (host.resolve(device)) result.emplace_back(device);
  }
  return result;
}

Result<std::vector<fs::path>> gpu_device_files(const RootFolder& host, const GpuPlace& gpu,
                                               DriverUse use) {
  if (!gpu.minor_number) {
    return err(ErrorCode::kNotFound, "the driver does not tell the number of its device file");
  }
  const fs::path device = fmt::format("/dev/nvidia{}", *gpu.minor_number);
  if (!host.resolve(device)) {
    return err(ErrorCode::kNotFound,
               "there is no {}; `nvidia-modprobe -u -c {}` makes it, or `nvidia-smi` as root",
               device.string(), *gpu.minor_number);
  }
  std::vector<fs::path> result = {device};
  if (use == DriverUse::kGraphics && gpu.pci) {
    for (fs::path& file : dri_files(host, *gpu.pci)) result.push_back(std::move(file));
  }
  return result;
}

}  // namespace divvy::inject
