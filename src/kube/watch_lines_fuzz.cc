// Any bytes are read, in pieces of any size, to the same events and the same end.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kube/mirror_state.h"
#include "kube/watch_lines.h"

using divvy::kube::WatchEvent;
using divvy::kube::WatchLines;

static std::string read_all(std::string_view text, std::size_t piece) {
  WatchLines lines;
  divvy::kube::MirrorState state;
  std::string seen;
  while (!text.empty()) {
    const auto read = lines.read(text.substr(0, piece), [&](const WatchEvent& event) {
      seen += std::to_string(static_cast<int>(event.kind)) + boost::json::serialize(event.object);
      seen += std::to_string(state.apply(event).size());
      return seen.size() < 10'000;
    });
    if (!read) return seen + read.error().message;
    text.remove_prefix(std::min(piece, text.size()));
  }
  return seen;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_all(text, text.size() + 1);
  DIVVY_CHECK(read_all(text, 1) == whole);
  DIVVY_CHECK(read_all(text, 7) == whole);
  return 0;
}
