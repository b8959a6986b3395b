// Seals what users entrust to us (tokens for hubs and registries) before it is written down:
// whoever has the database, or a backup of it, has nothing without the key, which is a file of its
// own beside it. Callable from any thread. The library behind it (OpenSSL) stays inside
// secret_box.cc.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::store {

class SecretBox {
 public:
  static constexpr std::size_t kKeyBytes = 32;

  // The key in this file; one is made, and is on the disk, where there is none. Refused where
  // others than its owner may read it, or it is somebody else's.
  [[nodiscard]] static Result<SecretBox> open(const std::filesystem::path& key_file);

  SecretBox(SecretBox&&) = default;
  SecretBox& operator=(SecretBox&&) = default;
  SecretBox(const SecretBox&) = delete;
  SecretBox& operator=(const SecretBox&) = delete;
  ~SecretBox();

  // AES-256-GCM with a random nonce, as text (hexadecimal digits). `place` says where it belongs
  // (whose it is, and its name): put anywhere else it cannot be opened.
  [[nodiscard]] Result<std::string> seal(std::string_view place, std::string_view secret) const;
  // kDataLoss: sealed with another key or for another place, or damaged.
  [[nodiscard]] Result<std::string> unseal(std::string_view place, std::string_view sealed) const;

 private:
  using Key = std::array<unsigned char, kKeyBytes>;
  explicit SecretBox(const Key& key) : key_(key) {}

  Key key_;
};

}  // namespace divvy::store
