// The driver: does it answer, do its parts fit together, may it be used?
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/doctor.h"
#include "cli/doctor_files.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build": the first
// word that is digits and dots, with at least one dot.
std::optional<std::string> kernel_module_version(const std::string& text) {
  const std::string_view first_line = std::string_view(text).substr(0, text.find('\n'));
  for (const std::string_view word : split(first_line, ' ')) {
    if (!word.empty() && word.find_first_not_of("0123456789.") == std::string_view::npos &&
        word.find('.') != std::string_view::npos) {
      return std::string(word);
    }
  }
  return std::nullopt;
}

bool module_is_loaded(const fs::path& root, std::string_view name) {
  const auto modules = read_text(below(root, "/proc/modules"));
  if (!modules) return false;
  for (const std::string_view line : split(*modules, '\n')) {
    if (line.substr(0, line.find(' ')) == name) return true;
  }
  return false;
}

Finding kernel_module(const DoctorInput& input, const std::optional<std::string>& library) {
  const std::string check = "driver.kernel_module";
  const auto text = read_text(below(input.root, "/proc/driver/nvidia/version"));
  if (!text) {
    return {check, Verdict::kError, "the kernel module of the NVIDIA driver is not loaded",
            "Load it with `modprobe nvidia` (dmesg says why it does not), or reboot after the "
            "driver was installed."};
  }
  const auto loaded = kernel_module_version(*text);
  if (!loaded || !library) {
    return {check, Verdict::kNote,
            "the versions of the kernel module and of the driver's libraries could not be compared",
            ""};
  }
  if (*loaded != *library) {
    return {check, Verdict::kError,
            fmt::format("the kernel module is version {} and the driver's libraries are {}",
                        *loaded, *library),
            "The driver was updated while it was in use: reboot, or end what uses the GPUs and "
            "reload the module (`rmmod nvidia_uvm nvidia_modeset nvidia && modprobe nvidia`)."};
  }
  return {check, Verdict::kOk,
          fmt::format("kernel module and libraries of the driver are both {}", *loaded), ""};
}

Finding device_nodes(const DoctorInput& input, std::size_t gpus) {
  const std::string check = "driver.device_nodes";
  std::vector<std::string> missing;
  std::vector<std::string> closed;
  std::vector<std::string> wanted = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
  // Numbers may have gaps, so at least one is all that can be asked for.
  if (gpus > 0) wanted.emplace_back("/dev/nvidia0");
  for (const std::string& path : wanted) {
    const auto status = look_at(below(input.root, path));
    if (!status) {
      missing.push_back(path);
    } else if ((status->st_mode & 0006) != 0006) {
      closed.push_back(path);
    }
  }
  if (!missing.empty()) {
    return {check, Verdict::kError,
            fmt::format("the driver's device {} is missing", fmt::join(missing, ", ")),
            "Make it with `nvidia-modprobe -u -c=0` as root (package nvidia-modprobe), or run "
            "nvidia-smi once as root."};
  }
  if (!closed.empty()) {
    return {check, Verdict::kWarning,
            fmt::format("not everybody may use {}", fmt::join(closed, ", ")),
            "Tenants of other users get no GPU. Set NVreg_DeviceFileMode=0666 for the nvidia "
            "module, or put the users into the group of the device."};
  }
  return {check, Verdict::kOk, "the driver's devices are there and open to everybody", ""};
}

Finding persistence(const DoctorInput& input) {
  const std::string check = "driver.persistence";
  if (look_at(below(input.root, "/run/nvidia-persistenced/socket"))) {
    return {check, Verdict::kOk, "nvidia-persistenced keeps the driver loaded", ""};
  }
  return {check, Verdict::kNote,
          "nvidia-persistenced does not run, so the driver may be unloaded between two jobs",
          "The first job after a pause then waits some seconds. `systemctl enable --now "
          "nvidia-persistenced` keeps the driver loaded."};
}

}  // namespace

Findings examine_driver(const DoctorInput& input) {
  Findings findings;
  const auto node = input.inventory();
  // Its examination says so, and that is no fault of this machine's.
  if (!node && has_simulated_gpus_of_root(input)) return findings;
  if (!node) {
    findings.push_back(
        {"driver.gpus", Verdict::kError,
         fmt::format("no GPU answers: {}",
                     trim(node.error().message.substr(0, node.error().message.find('\n')))),
         "Install the NVIDIA driver (`nvidia-smi` then works too), or try simulated GPUs: "
         "DIVVY_SIM_GPUS=2 divvy doctor"});
    if (input.simulated) return findings;
  } else {
    const std::size_t gpus = node->gpus().size();
    findings.push_back(
        {"driver.gpus", gpus > 0 ? Verdict::kOk : Verdict::kError,
         fmt::format("{} {}{} (driver {})", gpus, node->simulated() ? "simulated " : "",
                     gpus == 1 ? "GPU answers" : "GPUs answer",
                     node->driver_version().value_or("unknown")),
         gpus > 0 ? "" : "The driver runs but found no GPU: look at `lspci | grep -i nvidia`."});
    if (node->simulated()) return findings;
  }
  if (module_is_loaded(input.root, "nouveau")) {
    findings.push_back({"driver.nouveau", Verdict::kError,
                        "the driver nouveau is loaded and holds the GPUs",
                        "Write `blacklist nouveau` into /etc/modprobe.d/nouveau.conf, run "
                        "`update-initramfs -u`, and reboot."});
  }
  findings.push_back(kernel_module(input, node ? node->driver_version() : std::nullopt));
  findings.push_back(device_nodes(input, node ? node->gpus().size() : 0));
  if (node) findings.push_back(persistence(input));
  return findings;
}

}  // namespace divvy::cli
