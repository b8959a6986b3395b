// The capabilities of Linux by name, without the CAP_ that all of them begin with. The place in the
// list is the number that the kernel knows it by. Callable from any thread.
#pragma once

#include <span>
#include <string_view>

namespace divvy {

[[nodiscard]] std::span<const std::string_view> capability_names();

}  // namespace divvy
