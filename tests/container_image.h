// What tests with real containers share: a root file system from scratch with busybox and a few
// programs in it, and how podman is called so that it touches nothing outside the test's folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace divvy::testing {

// A libc, busybox and these programs in /usr/bin; no driver.
void make_container_image(const std::filesystem::path& image,
                          const std::vector<std::string>& programs);

// For `podman run` on machines with few rights, and for programs with sanitizers in them.
[[nodiscard]] std::vector<std::string> container_run_options();

// A line for a shell that becomes podman with the words that follow. Podman looks for devices in
// fixed folders, so the daemon's is put there in a mount namespace of its own. Its storage is the
// test's. Needs `unshare -m`.
[[nodiscard]] std::string podman_line(const std::filesystem::path& folder);

// Whether the process that printed this, `gpuload info`, runs its kernels through MPS.
[[nodiscard]] bool is_mps_client(const std::string& gpuload_info);

}  // namespace divvy::testing
