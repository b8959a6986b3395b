#include "run/sealed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "sys/durable_file.h"

namespace divvy::run {

Result<UniqueFd> sealed_file(const char* name, std::string_view text) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || !sys::write_all(file.get(), text) ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) !=
          0) {
    return err(ErrorCode::kIo, "no memory for {}: {}", name, std::strerror(errno));
  }
  return file;
}

Result<std::string> read_sealed_file(int fd, std::size_t most) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return err(ErrorCode::kIo, "{}", std::strerror(errno));
    if (got == 0) return text;
    if (text.size() + static_cast<std::size_t>(got) > most) {
      return err(ErrorCode::kDataLoss, "there is more than {} bytes", most);
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace divvy::run
