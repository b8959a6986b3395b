#include "simgpu/shared_files.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace divvy::simgpu {

std::optional<int> gpu_of_file(int fd, const char* prefix) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), target, sizeof(target));
  if (length <= 0) return std::nullopt;
  const std::string_view text(target, static_cast<size_t>(length));
  const std::string start = std::string("/memfd:") + prefix;
  if (!text.starts_with(start)) return std::nullopt;
  int gpu = -1;
  const char* digits = text.data() + start.size();
  const auto parsed = std::from_chars(digits, text.data() + text.size(), gpu);
  if (parsed.ec != std::errc() || gpu < 0) return std::nullopt;
  return gpu;
}

int device_of_gpu(Driver& driver, int gpu) {
  for (int device = 0; device < driver.device_count(); ++device) {
    if (driver.gpu_of(device) == gpu) return device;
  }
  return -1;
}

uint64_t map_shared_range(int fd, uint64_t offset, uint64_t size, IpcImport* import) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return 0;
  const auto length = static_cast<uint64_t>(info.st_size);
  if (offset >= length || size > length - offset) return 0;
  const uint64_t begin = offset / kSlabBytes * kSlabBytes;
  const uint64_t end = std::min(round_up(offset + size, kSlabBytes), length);
  void* at = map_aligned(end - begin, kSlabBytes, fd, begin);
  if (at == nullptr) return 0;
  import->mapped = reinterpret_cast<uint64_t>(at);
  import->mapped_bytes = end - begin;
  return import->mapped + (offset - begin);
}

}  // namespace divvy::simgpu
