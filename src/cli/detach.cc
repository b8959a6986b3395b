#include "cli/detach.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace divvy::cli {
namespace {

// For the handler, which may not allocate.
std::array<char, 512> detach_words{};
std::size_t detach_size = 0;

extern "C" void detach_now(int /*signal*/) {
  if (::isatty(STDERR_FILENO) != 0) {
    (void)!::write(STDERR_FILENO, detach_words.data(), detach_size);
  }
  ::_exit(kExitDetached);
}

}  // namespace

DetachOnInterrupt::DetachOnInterrupt(const std::string& words) {
  const std::string line = "\ndivvy: " + words + "\n";
  detach_size = std::min(line.size(), detach_words.size());
  std::memcpy(detach_words.data(), line.data(), detach_size);
  struct sigaction action{};
  action.sa_handler = detach_now;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_);
}

DetachOnInterrupt::~DetachOnInterrupt() { ::sigaction(SIGINT, &before_, nullptr); }

}  // namespace divvy::cli
