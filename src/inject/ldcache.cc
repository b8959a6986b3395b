#include "inject/ldcache.h"

#include <cstdint>
#include <cstring>
#include <optional>

namespace divvy::inject {
namespace {

constexpr std::string_view kOldMagic = "ld.so-1.7.0";
constexpr std::size_t kOldHeader = 16;  // Magic, a zero, and the number of entries
constexpr std::size_t kOldEntry = 12;
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kHeader = 48;
constexpr std::size_t kEntry = 24;
constexpr std::size_t kNameInEntry = 4;
constexpr std::size_t kPathInEntry = 8;
constexpr std::size_t kFlags = 28;  // Of the header: in which order the bytes of numbers are
constexpr unsigned kBigEndian = 3;

// Nothing where it would reach beyond the end.
std::optional<std::uint32_t> number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  if (at > bytes.size() || bytes.size() - at < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Nothing where it has no end.
std::optional<std::string_view> text_at(std::string_view bytes, std::size_t at) {
  if (at >= bytes.size()) return std::nullopt;
  const std::string_view rest = bytes.substr(at);
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

tl::unexpected<Error> damaged(std::string_view what) {
  return err(ErrorCode::kDataLoss, "the dynamic linker's cache is damaged: {}", what);
}

}  // namespace

Result<std::vector<CachedLibrary>> parse_ldcache(std::string_view bytes) {
  if (bytes.starts_with(kOldMagic)) {
    const auto entries = number_at(bytes, kOldHeader - sizeof(std::uint32_t));
    if (!entries) return damaged("it ends within its header");
    const std::uint64_t end = kOldHeader + std::uint64_t{*entries} * kOldEntry;
    const std::uint64_t aligned = (end + 7) / 8 * 8;
    if (aligned > bytes.size()) return damaged("it ends within its old part");
    // Offsets of the new format count from where it begins.
    bytes.remove_prefix(aligned);
  }
  if (!bytes.starts_with(kMagic)) {
    return err(ErrorCode::kDataLoss, "this is no cache of the dynamic linker that Divvy knows");
  }
  const auto entries = number_at(bytes, kMagic.size());
  if (!entries || bytes.size() < kHeader) return damaged("it ends within its header");
  if ((static_cast<unsigned char>(bytes[kFlags]) & 3U) == kBigEndian) {
    return err(ErrorCode::kUnsupported, "the dynamic linker's cache is of a big-endian machine");
  }
  if ((bytes.size() - kHeader) / kEntry < *entries) return damaged("it ends within its entries");

  std::vector<CachedLibrary> result;
  result.reserve(*entries);
  for (std::size_t i = 0; i < *entries; ++i) {
    const std::size_t entry = kHeader + i * kEntry;
    const auto name = text_at(bytes, number_at(bytes, entry + kNameInEntry).value());
    const auto path = text_at(bytes, number_at(bytes, entry + kPathInEntry).value());
    if (!name || !path) return damaged("a name lies beyond its end");
    result.push_back({std::string(*name), std::string(*path)});
  }
  return result;
}

}  // namespace divvy::inject
