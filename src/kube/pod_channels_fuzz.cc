// Messages of an API server, as any bytes: read as one of a channel, and as the last one.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/pod_channels.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto message = divvy::kube::read_channel_message(bytes);
  DIVVY_CHECK(message.has_value() == !bytes.empty());
  if (message) {
    DIVVY_CHECK(divvy::kube::channel_message(message->first, message->second) == bytes);
    static_cast<void>(divvy::kube::read_pod_status(message->second));
  }
  const auto status = divvy::kube::read_pod_status(bytes);
  DIVVY_CHECK(status.has_value() || !status.error().message.empty());
  return 0;
}
