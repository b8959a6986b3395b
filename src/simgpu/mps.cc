#include "simgpu/mps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "simgpu/config.h"

namespace divvy::simgpu {

std::optional<sockaddr_un> mps_control_address(const std::string& pipe_folder) {
  const std::string path = pipe_folder + "/control";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

int connect_to_mps(const std::string& pipe_folder) {
  const auto address = mps_control_address(pipe_folder);
  if (!address) return -1;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::optional<unsigned> mps_client_threads() {
  const Environment environment = process_environment();
  const auto folder = environment("CUDA_MPS_PIPE_DIRECTORY");
  if (!folder) return std::nullopt;
  const int fd = connect_to_mps(*folder);
  if (fd < 0) return std::nullopt;
  close(fd);
  const auto text = environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const double per_cent = text ? strtod(text->c_str(), nullptr) : 100.0;
  // What is no percentage limits nothing, as on hardware.
  if (!(per_cent > 0.0) || per_cent > 100.0) return 100;
  return static_cast<unsigned>(std::max(1L, std::lround(per_cent)));
}

}  // namespace divvy::simgpu
