// The address of a Unix socket. Pure, callable from any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace divvy {

[[nodiscard]] inline Result<sockaddr_un> unix_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.size() >= sizeof address.sun_path) {
    return err(ErrorCode::kInvalidArgument,
               "the socket path {} is longer than {} characters; choose a shorter run directory",
               text, sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}

}  // namespace divvy
