// Both ends of a pipe, closed on exec. Callable from any thread.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};
[[nodiscard]] Result<Pipe> make_pipe();

}  // namespace divvy::sys
