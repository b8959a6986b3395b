// Any bytes are an answer of HAProxy or one sentence that says what is wrong.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "proxy/haproxy_stats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy::proxy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)read_stat(text);
  (void)read_servers_state(text);
  if (const auto found = read_processes(text)) {
    // Somebody will send signals to them.
    DIVVY_CHECK(found->master > 1);
    for (const pid_t pid : found->old_workers) DIVVY_CHECK(pid > 1);
  }
  return 0;
}
