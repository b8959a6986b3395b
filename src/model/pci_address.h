// Where a device sits on the PCI bus. A plain value that is always in range.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::model {

class PciAddress {
 public:
  // A device number has five bits and a function number three; larger ones are refused.
  [[nodiscard]] static Result<PciAddress> create(std::uint32_t domain, std::uint32_t bus,
                                                 std::uint32_t device, std::uint32_t function);

  // "00000000:18:00.0" (the driver's form), "0000:18:00.0" (the kernel's) or "18:00.0".
  [[nodiscard]] static Result<PciAddress> parse(std::string_view text);

  [[nodiscard]] std::uint32_t domain() const { return domain_; }
  [[nodiscard]] std::uint8_t bus() const { return bus_; }
  [[nodiscard]] std::uint8_t device() const { return device_; }
  [[nodiscard]] std::uint8_t function() const { return function_; }

  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

 private:
  PciAddress() = default;

  std::uint32_t domain_ = 0;
  std::uint8_t bus_ = 0;
  std::uint8_t device_ = 0;
  std::uint8_t function_ = 0;
};

// The driver's form, in upper case: "00000000:18:00.0".
[[nodiscard]] std::string to_string(const PciAddress& address);
// The kernel's form, as in /sys/bus/pci/devices: "0000:18:00.0".
[[nodiscard]] std::string to_sysfs_name(const PciAddress& address);

}  // namespace divvy::model
