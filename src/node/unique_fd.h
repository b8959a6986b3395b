// The descriptor with one owner (base/unique_fd.h) under the name that this room gives it.
#pragma once

#include "base/unique_fd.h"

namespace divvy::node {

using divvy::UniqueFd;

}  // namespace divvy::node
