#include "sys/byte_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace divvy::sys {
namespace {

constexpr std::size_t kSmallest = std::size_t{16} << 10;

}  // namespace

ByteRing::ByteRing(std::size_t most) : most_(most) { DIVVY_CHECK(std::has_single_bit(most)); }

void ByteRing::grow(std::size_t at_least) {
  const std::size_t wanted =
      std::min(most_, std::bit_ceil(std::max({at_least, kSmallest, capacity_})));
  if (wanted <= capacity_) return;
  auto memory = std::make_unique_for_overwrite<char[]>(wanted);
  std::uint64_t at = first_;
  for (const iovec& piece : part(first_, past_)) {
    // Twice at most, because it may go over the edge of the new one, too.
    const char* from = static_cast<const char*>(piece.iov_base);
    std::size_t left = piece.iov_len;
    while (left > 0) {
      const std::size_t place = static_cast<std::size_t>(at) & (wanted - 1);
      const std::size_t now = std::min(left, wanted - place);
      std::memcpy(memory.get() + place, from, now);
      from += now;
      left -= now;
      at += now;
    }
  }
  memory_ = std::move(memory);
  capacity_ = wanted;
}

RingPieces ByteRing::part(std::uint64_t from, std::uint64_t past) const {
  DIVVY_CHECK(from >= first_ && from <= past && past <= past_);
  RingPieces pieces{};
  const auto length = static_cast<std::size_t>(past - from);
  if (length == 0) return pieces;
  const std::size_t place = static_cast<std::size_t>(from) & (capacity_ - 1);
  const std::size_t straight = std::min(length, capacity_ - place);
  pieces[0] = {memory_.get() + place, straight};
  if (straight < length) pieces[1] = {memory_.get(), length - straight};
  return pieces;
}

RingPieces ByteRing::space() {
  if (size() == capacity_) grow(capacity_ * 2);
  RingPieces pieces{};
  const std::size_t length = capacity_ - size();
  if (length == 0) return pieces;
  const std::size_t place = static_cast<std::size_t>(past_) & (capacity_ - 1);
  const std::size_t straight = std::min(length, capacity_ - place);
  pieces[0] = {memory_.get() + place, straight};
  if (straight < length) pieces[1] = {memory_.get(), length - straight};
  return pieces;
}

void ByteRing::filled(std::size_t count) {
  DIVVY_CHECK(count <= capacity_ - size());
  past_ += count;
}

void ByteRing::append(std::string_view bytes) {
  DIVVY_CHECK(bytes.size() <= room());
  grow(size() + bytes.size());
  while (!bytes.empty()) {
    const iovec piece = space()[0];
    const std::size_t now = std::min(bytes.size(), piece.iov_len);
    std::memcpy(piece.iov_base, bytes.data(), now);
    filled(now);
    bytes.remove_prefix(now);
  }
}

void ByteRing::drop(std::size_t count) {
  DIVVY_CHECK(count <= size());
  first_ += count;
}

}  // namespace divvy::sys
