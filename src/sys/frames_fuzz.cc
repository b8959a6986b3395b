// Any bytes from the other side of a stream: refused, or frames that are written and read as the
// same ones.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "sys/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  divvy::sys::FrameReader reader;
  reader.add({reinterpret_cast<const char*>(data), size});
  for (;;) {
    const auto frame = reader.next();
    if (!frame || !*frame) return 0;
    divvy::sys::FrameReader again;
    again.add(divvy::sys::to_bytes(**frame));
    const auto same = again.next();
    DIVVY_CHECK(same && *same && **same == **frame);
  }
}
