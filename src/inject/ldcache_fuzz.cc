// Any bytes are a cache or a refusal; names and paths lie within them.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "inject/ldcache.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto libraries = divvy::inject::parse_ldcache({reinterpret_cast<const char*>(data), size});
  if (!libraries) return 0;
  DIVVY_CHECK(libraries->size() <= size);
  for (const auto& library : *libraries) {
    DIVVY_CHECK(library.name.size() < size && library.path.size() < size);
  }
  return 0;
}
