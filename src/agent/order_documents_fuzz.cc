// Any bytes from the other side of the socket: refused, or a message that is written and read as
// the same one.
#include <cstddef>
#include <cstdint>

#include "agent/message_buffer.h"
#include "agent/order_documents.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto message = divvy::agent::read_message(text)) {
    const auto again = divvy::agent::read_message(divvy::agent::write_message(*message));
    DIVVY_CHECK(again && *again == *message);
  }
  std::string bytes = text;
  while (true) {
    const auto taken = divvy::agent::take_message(bytes);
    if (!taken || !*taken) break;
  }
  return 0;
}
