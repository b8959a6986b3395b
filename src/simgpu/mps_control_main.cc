// Stands for NVIDIA's nvidia-cuda-mps-control on simulated GPUs: as a daemon (-d, or -f in the
// foreground) it listens in CUDA_MPS_PIPE_DIRECTORY until it is told to quit; without an option it
// hands the lines of its standard input to that daemon and prints the answers. The simulated driver
// does the sharing itself (simgpu/mps.h); the daemon's being there is all it looks at.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "simgpu/config.h"
#include "simgpu/mps.h"

namespace divvy::simgpu {
namespace {

std::string pipe_folder() {
  return process_environment()("CUDA_MPS_PIPE_DIRECTORY").value_or("/tmp/nvidia-mps");
}

// What a connection sends until it has no more to say, or has been silent for a second.
std::string read_all(int fd) {
  const timeval patience{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string text;
  char buffer[256];
  for (ssize_t count; (count = read(fd, buffer, sizeof buffer)) > 0 && text.size() < 4096;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

int serve(bool background) {
  const auto address = mps_control_address(pipe_folder());
  if (!address) {
    std::cerr << "the path " << pipe_folder() << " is too long for a socket\n";
    return 1;
  }
  if (const int fd = connect_to_mps(pipe_folder()); fd >= 0) {
    close(fd);
    std::cerr << "An instance of this daemon is already running\n";
    return 1;
  }
  unlink(address->sun_path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      // Clients may be of any user, as NVIDIA's lets them.
      chmod(address->sun_path, 0666) != 0 || listen(listener, 64) != 0) {
    std::cerr << "cannot listen at " << address->sun_path << ": " << strerror(errno) << "\n";
    return 1;
  }
  if (background && daemon(1, 0) != 0) return 1;
  for (bool quit = false; !quit;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    quit = read_all(fd).starts_with("quit");
    if (quit) unlink(address->sun_path);
    close(fd);
  }
  return 0;
}

int talk() {
  for (std::string line; std::getline(std::cin, line);) {
    const int fd = connect_to_mps(pipe_folder());
    if (fd < 0) {
      std::cout << "Cannot find MPS control daemon process\n";
      return 1;
    }
    line += '\n';
    if (write(fd, line.data(), line.size()) < 0) return 1;
    shutdown(fd, SHUT_WR);
    std::cout << read_all(fd);
    close(fd);
  }
  return 0;
}

}  // namespace
}  // namespace divvy::simgpu

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const std::string option = argc > 1 ? argv[1] : "";
  if (option.empty()) return divvy::simgpu::talk();
  if (option == "-d" || option == "-f") return divvy::simgpu::serve(option == "-d");
  std::cerr << "usage: nvidia-cuda-mps-control [-d | -f]   (simulated)\n";
  return 1;
}
