// The secret that a token is: made once, shown once, and kept only as its hash. Pure apart from
// the randomness of the kernel; callable from any thread. The library behind the hash (OpenSSL)
// stays inside token_secret.cc.
//
//   divvy_3f9a1c0b5d7e2468_<64 hexadecimal digits>
//
// The first part is the id, which is no secret and finds the row; the second is 256 random bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::store {

struct TokenText {
  std::string id;
  std::string secret;
};

// Random. kUnavailable when the kernel has none, which it never says on a machine that has booted.
[[nodiscard]] Result<TokenText> make_token_text();
// As a person keeps it.
[[nodiscard]] std::string join_token(const TokenText& token);
// Nothing for what was never a token.
[[nodiscard]] std::optional<TokenText> split_token(std::string_view text);

// SHA-256, as hexadecimal digits. Also what requests are told apart by.
[[nodiscard]] std::string hash_text(std::string_view text);

// Takes as long for a wrong one as for the right one, so that nobody finds it by measuring.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace divvy::store
