// The dynamic linker's cache of where libraries are (/etc/ld.so.cache), in the format that glibc
// has written since 2.2 (glibc-ld.so.cache1.1), alone or behind the format of before.
//
// A pure function over bytes that may be anything; callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::inject {

struct CachedLibrary {
  std::string name;  // "libcuda.so.1"
  std::string path;  // "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
};

// In the order of the file. kDataLoss when it is none, or damaged.
[[nodiscard]] Result<std::vector<CachedLibrary>> parse_ldcache(std::string_view bytes);

}  // namespace divvy::inject
