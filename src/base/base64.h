// Bytes as text of RFC 4648. Pure, callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace divvy {

// Section 4: of the header Authorization, of Secrets, kubeconfigs and webhooks.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
// Padding is optional, blanks and line ends are skipped; any bytes are safe to pass.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);
// Section 5, without '='.
[[nodiscard]] std::string encode_base64url(std::string_view bytes);

}  // namespace divvy
