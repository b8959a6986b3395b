// Any text is read as a kubeconfig or refused; what is taken has a server, and the pieces of a user
// that belong together.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* context : {"", "c"}) {
    const auto config = divvy::kube::parse_kubeconfig(text, context);
    if (!config) {
      DIVVY_CHECK(!config.error().message.empty());
      continue;
    }
    DIVVY_CHECK(!config->server.empty() && !config->space.empty() && !config->context.empty());
    DIVVY_CHECK(config->certificate.empty() == config->key.empty());
    DIVVY_CHECK(config->token.text.empty() || config->token.file.empty());
  }
  return 0;
}
