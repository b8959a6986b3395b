// Bytes as text of RFC 4648. Pure, callable from any thread.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

// Section 4: of the header Authorization.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
// Section 5, without '='.
[[nodiscard]] std::string encode_base64url(std::string_view bytes);

}  // namespace divvy
