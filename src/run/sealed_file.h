// Text for another process that is to be in no file: a descriptor of memory that nobody can change
// any more. Callable from any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::run {

// Its offset is at the end. Closed on exec. `name` is for lists of descriptors.
[[nodiscard]] Result<UniqueFd> sealed_file(const char* name, std::string_view text);
// All of it, from the beginning; kDataLoss: it is longer than `most`.
[[nodiscard]] Result<std::string> read_sealed_file(int fd, std::size_t most);

}  // namespace divvy::run
