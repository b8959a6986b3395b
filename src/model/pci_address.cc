#include "model/pci_address.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/parse_error.h"

namespace divvy::model {
namespace {

std::optional<std::uint32_t> hex_value(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint32_t>(c - 'A' + 10);
  return std::nullopt;
}

constexpr std::uint32_t kMaxBus = 0xFF;
constexpr std::uint32_t kMaxDevice = 0x1F;
constexpr std::uint32_t kMaxFunction = 0x7;

}  // namespace

Result<PciAddress> PciAddress::create(std::uint32_t domain, std::uint32_t bus, std::uint32_t device,
                                      std::uint32_t function) {
  if (bus > kMaxBus || device > kMaxDevice || function > kMaxFunction) {
    return err(
        ErrorCode::kOutOfRange,
        "there is no PCI address with bus {:#x}, device {:#x} and function {:#x}; the largest "
        "are 0xff, 0x1f and 0x7",
        bus, device, function);
  }
  PciAddress address;
  address.domain_ = domain;
  address.bus_ = static_cast<std::uint8_t>(bus);
  address.device_ = static_cast<std::uint8_t>(device);
  address.function_ = static_cast<std::uint8_t>(function);
  return address;
}

Result<PciAddress> PciAddress::parse(std::string_view text) {
  const auto fail = [text](std::size_t position, std::string reason,
                           ErrorCode code = ErrorCode::kInvalidArgument) {
    return err(parse_error({text, position, "a PCI address", std::move(reason),
                            "write it like 00000000:18:00.0 or 0000:18:00.0"},
                           code));
  };
  struct Field {
    std::string_view name;
    std::size_t least_digits;
    std::size_t most_digits;
    std::uint32_t largest;
    char end;  // What follows the field; nothing follows the last.
  };
  constexpr std::array<Field, 4> kFields{{{"domain", 4, 8, 0xFFFF'FFFF, ':'},
                                          {"bus", 2, 2, kMaxBus, ':'},
                                          {"device", 2, 2, kMaxDevice, '.'},
                                          {"function", 1, 1, kMaxFunction, '\0'}}};
  // The domain may be left out; it is there when more than a bus stands before the first colon.
  const std::size_t first_colon = text.find(':');
  const bool has_domain = first_colon != std::string_view::npos && first_colon > 2;
  std::array<std::uint32_t, 4> values{};
  std::size_t at = 0;
  for (std::size_t i = has_domain ? 0 : 1; i < kFields.size(); ++i) {
    const Field& field = kFields[i];
    const std::size_t begin = at;
    for (; at < text.size() && at - begin < field.most_digits; ++at) {
      const auto digit = hex_value(text[at]);
      if (!digit) break;
      values[i] = values[i] * 16 + *digit;
    }
    if (at - begin < field.least_digits) {
      return fail(at, fmt::format("a hexadecimal digit of the {} belongs there", field.name));
    }
    if (values[i] > field.largest) {
      return fail(begin, fmt::format("the largest {} is {:x}", field.name, field.largest),
                  ErrorCode::kOutOfRange);
    }
    if (field.end == '\0') break;
    if (at == text.size() || text[at] != field.end) {
      return fail(at, fmt::format("a \"{}\" belongs behind the {}", field.end, field.name));
    }
    ++at;
  }
  if (at < text.size()) return fail(at, "there is more behind the address");
  return create(values[0], values[1], values[2], values[3]);
}

std::string to_string(const PciAddress& address) {
  return fmt::format("{:08X}:{:02X}:{:02X}.{:X}", address.domain(), address.bus(), address.device(),
                     address.function());
}

std::string to_sysfs_name(const PciAddress& address) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain(), address.bus(), address.device(),
                     address.function());
}

}  // namespace divvy::model
