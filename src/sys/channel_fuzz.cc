// Any bytes as what the other end of a channel says, over any number of connections: never more is
// kept than the window, and what goes out is understood by an honest end.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "sys/channel.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kWindow = 1024;
  divvy::sys::Channel channel(kWindow);
  channel.connect();
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (!bytes.empty()) {
    // The first byte says what happens besides, and how long the next piece is.
    const auto what = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    const std::string_view piece = bytes.substr(0, what >> 2U);
    bytes.remove_prefix(piece.size());
    const bool fine = channel.receive(piece).has_value();
    DIVVY_CHECK(fine || channel.failure());
    DIVVY_CHECK(divvy::sys::size_of(channel.incoming()) <= kWindow);
    switch (what & 3U) {
      case 0:
        channel.connect();
        break;
      case 1:
        for (const iovec& room : channel.space()) {
          if (room.iov_len > 0) std::memset(room.iov_base, 'x', room.iov_len);
        }
        channel.wrote(divvy::sys::size_of(channel.space()));
        break;
      case 2: {
        std::size_t out = 0;
        for (const iovec& one : channel.outgoing()) out += one.iov_len;
        channel.sent(out / 2 + out % 2);
        break;
      }
      default:
        channel.handed_on(divvy::sys::size_of(channel.incoming()));
        if (channel.at_end()) channel.handed_on_end();
        break;
    }
  }
  return 0;
}
