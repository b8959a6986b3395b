// Feeds any bytes to the parsers of GPU names: UUIDs and PCI addresses come from the driver, from
// files and from the command line. What is read prints and reads back as itself; what is refused is
// explained with a caret under the text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "model/gpu_uuid.h"
#include "model/pci_address.h"

namespace {

using divvy::model::GpuUuid;
using divvy::model::PciAddress;

void check_message(std::string_view message) {
  const auto lines = divvy::split(message, '\n');
  DIVVY_CHECK(lines.size() == 4, "{} lines: {}", lines.size(), message);
  const std::size_t caret = lines[2].find('^');
  DIVVY_CHECK(caret == lines[2].size() - 1 && caret >= 2, "caret line: {}", lines[2]);
  DIVVY_CHECK(caret <= lines[1].size(), "caret outside of: {}", lines[1]);
  DIVVY_CHECK(lines[3].starts_with("write it like "), "no example: {}", lines[3]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto uuid = GpuUuid::parse(text)) {
    DIVVY_CHECK(divvy::to_lower(uuid->str()) == divvy::to_lower(text), "{}", *uuid);
    DIVVY_CHECK(GpuUuid::parse(uuid->str()) == *uuid, "{}", *uuid);
  } else {
    check_message(uuid.error().message);
  }
  if (const auto address = PciAddress::parse(text)) {
    DIVVY_CHECK(PciAddress::parse(to_string(*address)) == *address);
    DIVVY_CHECK(PciAddress::parse(to_sysfs_name(*address)) == *address);
  } else {
    check_message(address.error().message);
  }
  return 0;
}
