#include "store/secret_box.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/unique_fd.h"

namespace divvy::store {
namespace {

namespace fs = std::filesystem;

// What is sealed begins with it, so that another way of sealing can come beside this one.
constexpr char kWay = 1;
constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kAround = 1 + kNonceBytes + kTagBytes;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

Cipher make_cipher() { return {::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free}; }

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// Up to 256 bytes come whole or not at all.
Status fill_randomly(unsigned char* bytes, std::size_t size) {
  ssize_t got = 0;
  do {
    got = ::getrandom(bytes, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(size)) return {};
  return err(ErrorCode::kUnavailable, "the kernel gives no random numbers: {}",
             std::strerror(errno));
}

tl::unexpected<Error> key_error(const fs::path& file, std::string_view what) {
  return err(ErrorCode::kIo, "the key of secrets, {}: {}", file.string(), what);
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

Status write_all(int fd, const unsigned char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t put = ::write(fd, bytes, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return err(ErrorCode::kIo, "{}", std::strerror(put < 0 ? errno : EIO));
    bytes += put;
    size -= static_cast<std::size_t>(put);
  }
  return {};
}

// Under its name when all of it is on the disk: a key of which a part is missing opens nothing that
// it sealed before.
Status write_key(const fs::path& file, const unsigned char* key, std::size_t size) {
  const fs::path beside = file.string() + ".new";
  ::unlink(beside.c_str());
  const UniqueFd fd(
      ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return key_error(file, std::strerror(errno));
  if (const Status written = write_all(fd.get(), key, size); !written) {
    return key_error(file, written.error().message);
  }
  if (::fsync(fd.get()) != 0 || ::rename(beside.c_str(), file.c_str()) != 0) {
    return key_error(file, std::strerror(errno));
  }
  const UniqueFd folder(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return key_error(file, std::strerror(errno));
  return {};
}

}  // namespace

SecretBox::~SecretBox() { ::OPENSSL_cleanse(key_.data(), key_.size()); }

Result<SecretBox> SecretBox::open(const fs::path& key_file) {
  Key key{};
  const UniqueFd fd(::open(key_file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno != ENOENT) return key_error(key_file, std::strerror(errno));
  if (!fd) {
    DIVVY_RETURN_IF_ERROR(fill_randomly(key.data(), key.size()));
    DIVVY_RETURN_IF_ERROR(write_key(key_file, key.data(), key.size()));
    return SecretBox(key);
  }
  struct stat state{};
  if (::fstat(fd.get(), &state) != 0) return key_error(key_file, std::strerror(errno));
  if (!S_ISREG(state.st_mode) || state.st_uid != ::geteuid() || (state.st_mode & 077) != 0) {
    return key_error(key_file,
                     "it has to be a file that is divvyd's and that nobody else can read "
                     "(chmod 600); whoever could read it may know every secret");
  }
  // One byte more than there should be, to see whether there is more.
  std::array<unsigned char, kKeyBytes + 1> read{};
  const ssize_t got = ::pread(fd.get(), read.data(), read.size(), 0);
  if (got != static_cast<ssize_t>(kKeyBytes)) {
    return key_error(key_file, "it is damaged; move it away, restart divvyd and set secrets again");
  }
  std::memcpy(key.data(), read.data(), key.size());
  ::OPENSSL_cleanse(read.data(), read.size());
  return SecretBox(key);
}

Result<std::string> SecretBox::seal(std::string_view place, std::string_view secret) const {
  std::string sealed(kAround + secret.size(), '\0');
  sealed[0] = kWay;
  unsigned char* const nonce = bytes_of(sealed) + 1;
  unsigned char* const text = nonce + kNonceBytes;
  DIVVY_RETURN_IF_ERROR(fill_randomly(nonce, kNonceBytes));
  const Cipher cipher = make_cipher();
  int size = 0;
  const bool done =
      cipher &&
      ::EVP_EncryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, key_.data(), nonce) == 1 &&
      ::EVP_EncryptUpdate(cipher.get(), nullptr, &size, bytes_of(place),
                          static_cast<int>(place.size())) == 1 &&
      ::EVP_EncryptUpdate(cipher.get(), text, &size, bytes_of(secret),
                          static_cast<int>(secret.size())) == 1 &&
      ::EVP_EncryptFinal_ex(cipher.get(), text + size, &size) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, text + secret.size()) ==
          1;
  if (!done) return err(ErrorCode::kInternal, "a secret could not be sealed");
  return to_hex(sealed);
}

Result<std::string> SecretBox::unseal(std::string_view place, std::string_view text_sealed) const {
  const auto sealed = from_hex(text_sealed);
  if (!sealed || sealed->size() < kAround || sealed->front() != kWay) {
    return err(ErrorCode::kDataLoss, "it is damaged");
  }
  const unsigned char* const nonce = bytes_of(std::string_view(*sealed)) + 1;
  const unsigned char* const text = nonce + kNonceBytes;
  std::string secret(sealed->size() - kAround, '\0');
  std::array<unsigned char, kTagBytes> tag;
  std::memcpy(tag.data(), text + secret.size(), tag.size());
  const Cipher cipher = make_cipher();
  int size = 0;
  const bool done =
      cipher &&
      ::EVP_DecryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, key_.data(), nonce) == 1 &&
      ::EVP_DecryptUpdate(cipher.get(), nullptr, &size, bytes_of(place),
                          static_cast<int>(place.size())) == 1 &&
      ::EVP_DecryptUpdate(cipher.get(), bytes_of(secret), &size, text,
                          static_cast<int>(secret.size())) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      ::EVP_DecryptFinal_ex(cipher.get(), bytes_of(secret) + size, &size) == 1;
  if (done) return secret;
  ::OPENSSL_cleanse(secret.data(), secret.size());
  return err(ErrorCode::kDataLoss, "it was sealed with another key, or is damaged");
}

}  // namespace divvy::store
