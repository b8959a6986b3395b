// What is undone when the driver has freed an allocation.
#pragma once

#include "shim/charge.h"
#include "shim/pools.h"

namespace divvy::shim {

inline void give_back(const Allocation& held) {
  if (held.family == Family::kPool && held.pool != 0) {
    pool_freed(held.pool);
  } else {
    uncharge_slice(held.slice, held.bytes);
  }
}

}  // namespace divvy::shim
