// Joins what `divvy` says to a member of a job (frames of sys/frames.h on a socket) with a
// connection into its pod (kube/pod_channels.h). Runs on a thread of its own, until either side has
// ended; whatever is not taken yet is kept, up to a bound, so that neither side waits for the other
// for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kube/api_server.h"

namespace divvy::kube_api {

struct PodVisitor {
  std::unique_ptr<kube::PodConnection> pod;
  UniqueFd caller;
  bool takes_input = true;
  bool terminal = false;
  // Of copies: a container without tar is told by the exit status that a shell has for it.
  bool copies = false;
  // Of attach: the exit status of the container, which the connection does not tell.
  std::function<Result<std::int32_t>()> how_it_ended = {};
};
void carry_visit(PodVisitor visitor);

// Joins the bytes of a socket with a port of a pod.
void carry_port(std::unique_ptr<kube::PodConnection> pod, UniqueFd caller);

}  // namespace divvy::kube_api
