// MPS as the simulation has it: where the control daemon listens, and whether this process is one
// of its clients. Used by libcuda when it is initialised and by the simulated
// nvidia-cuda-mps-control.
//
// A client's kernels run beside those of the other clients instead of in time slices, each client
// on its own part of the GPU: with 30 % of the threads everything takes 1 / 0.3 times as long.
// Clients do not slow each other down, also where their parts come to more than the whole.
#pragma once

#include <sys/un.h>

#include <optional>
#include <string>

namespace divvy::simgpu {

// The control daemon's socket in a folder of pipes; nothing when the path is too long for one.
std::optional<sockaddr_un> mps_control_address(const std::string& pipe_folder);

// A connection to the control daemon of a folder, -1 when none listens there.
int connect_to_mps(const std::string& pipe_folder);

// Per cent of the GPU's threads that this process may use, 1 to 100, if it is a client: its
// environment names a folder of pipes and a control daemon listens there.
std::optional<unsigned> mps_client_threads();

}  // namespace divvy::simgpu
