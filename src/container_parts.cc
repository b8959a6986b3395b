#include "container_parts.h"

#include <unistd.h>

#include <cstdlib>

#include "base/log.h"
#include "driver.h"
#include "net/local_paths.h"

namespace divvy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStatic = "/etc/cdi";
constexpr const char* kDynamic = "/var/run/cdi";
constexpr const char* kRootsRunFolder = "/run/divvy";

fs::path named_folder(const fs::path& named) {
  if (!named.empty()) return fs::absolute(named);
  const char* folder = std::getenv("DIVVY_CDI_DIR");
  return folder != nullptr && *folder != '\0' ? fs::absolute(folder) : fs::path();
}

// An installation of the driver elsewhere, as in a container that brings it.
fs::path driver_root() {
  const char* folder = std::getenv("DIVVY_DRIVER_ROOT");
  return folder != nullptr && *folder != '\0' ? fs::absolute(folder) : fs::path("/");
}

}  // namespace

inject::ContainerDevices::Parts container_parts(const model::Node& node,
                                                const ContainerSettings& settings) {
  inject::ContainerDevices::Parts parts;
  parts.gpus = node.gpus();
  parts.roots.driver = inject::RootFolder(driver_root());
  if (node.simulated()) {
    parts.simulated = {.libraries = simulated_libraries(), .state = simulated_state()};
  }
  parts.shim = installation() / "lib/divvy/libdivvy.so";
  parts.state_folder = settings.state;
  if (settings.graphics) parts.use = inject::DriverUse::kGraphics;
  const fs::path named = named_folder(settings.cdi);
  if (!named.empty()) {
    parts.gpu_folder = parts.slice_folder = named;
  } else if (::geteuid() == 0 && settings.run == kRootsRunFolder) {
    parts.slice_folder = kDynamic;
    parts.gpu_folder =
        !node.simulated() && inject::is_writable_folder(kStatic) ? kStatic : kDynamic;
  } else {
    parts.gpu_folder = parts.slice_folder = settings.run / "cdi";
  }
  return parts;
}

std::unique_ptr<inject::ContainerDevices> make_container_devices(
    const model::Node& node, const ContainerSettings& settings) {
  auto devices = std::make_unique<inject::ContainerDevices>(container_parts(node, settings));
  if (const Status ready = devices->refresh(); !ready) {
    log_warning("containers cannot get GPUs", {{"reason", ready.error().message}});
  }
  return devices;
}

}  // namespace divvy
