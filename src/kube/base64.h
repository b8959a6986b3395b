// Base64 (RFC 4648) as kubeconfigs, Secrets and webhooks have it. Pure; any bytes are safe to pass.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace divvy::kube {

[[nodiscard]] std::string to_base64(std::string_view bytes);
// Padding is optional, blanks and line ends are skipped.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);

}  // namespace divvy::kube
