// Small files that are there whole or not at all, also after a loss of power: written beside,
// synced and renamed. And reading small files that somebody may have damaged. Callable from any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

// Replaces `name` in the folder that `folder` is open on; only its owner can read it. Once it
// returns success the bytes survive a loss of power.
[[nodiscard]] Status write_durably(int folder, const std::string& name, std::string_view bytes);
// The same without the wait for the disk: for what means nothing after a loss of power.
[[nodiscard]] Status write_whole(int folder, const std::string& name, std::string_view bytes);

// Room on the disk for a later write_durably of at most `bytes` under this name, so that what has
// to be told in the end can be told on a disk that is full by then.
[[nodiscard]] Status reserve_room(int folder, const std::string& name, std::size_t bytes);

// The whole file. kNotFound: there is none. kDataLoss: it is longer than `most`, or no file.
[[nodiscard]] Result<std::string> read_file(int folder, const std::string& name, std::size_t most);

[[nodiscard]] Result<UniqueFd> open_folder(const std::string& path);

// Until all is written; false with errno set where it cannot be.
[[nodiscard]] bool write_all(int fd, std::string_view bytes);

}  // namespace divvy::sys
