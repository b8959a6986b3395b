#include "sys/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/capability_names.h"
#include "base/check.h"

namespace divvy::sys {
namespace {

struct Sets {
  std::uint64_t effective = 0;
  std::uint64_t permitted = 0;
  std::uint64_t inheritable = 0;
};

// The kernel's own calls: a library for three numbers would cost more than it gives.
bool get(Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct halves[2] = {};
  if (::syscall(SYS_capget, &header, halves) != 0) return false;
  const auto join = [](std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32U | low;
  };
  sets = {join(halves[0].effective, halves[1].effective),
          join(halves[0].permitted, halves[1].permitted),
          join(halves[0].inheritable, halves[1].inheritable)};
  return true;
}

bool set(const Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct halves[2] = {};
  for (unsigned half = 0; half < 2; ++half) {
    halves[half].effective = static_cast<std::uint32_t>(sets.effective >> (32 * half));
    halves[half].permitted = static_cast<std::uint32_t>(sets.permitted >> (32 * half));
    halves[half].inheritable = static_cast<std::uint32_t>(sets.inheritable >> (32 * half));
  }
  return ::syscall(SYS_capset, &header, halves) == 0;
}

Error refused(std::string_view what) {
  return {ErrorCode::kPermissionDenied,
          fmt::format("privileges could not be given up ({}: {}); 'privileges: {{drop: false}}' in "
                      "the configuration starts the daemon with all of them",
                      what, std::strerror(errno))};
}

}  // namespace

std::uint64_t capability_bits(std::span<const std::string_view> names) {
  std::uint64_t bits = 0;
  const auto all = capability_names();
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(all, name);
    DIVVY_CHECK(found != all.end(), "there is no capability {}", name);
    bits |= std::uint64_t{1} << static_cast<unsigned>(found - all.begin());
  }
  return bits;
}

Status drop_privileges(std::span<const std::string> keep) {
  Sets before;
  if (!get(before)) return err(refused("capget"));
  if (before.permitted == 0) return {};
  const std::vector<std::string_view> kept(keep.begin(), keep.end());
  const std::uint64_t used = capability_bits(kUsedCapabilities) | capability_bits(kept);
  const std::uint64_t all = used | capability_bits(kPassedCapabilities);

  // The bounding set first, which needs a capability that goes with the rest.
  for (unsigned bit = 0; bit <= CAP_LAST_CAP; ++bit) {
    if ((all >> bit & 1U) != 0 || ::prctl(PR_CAPBSET_READ, bit, 0, 0, 0) != 1) continue;
    if (::prctl(PR_CAPBSET_DROP, bit, 0, 0, 0) != 0 && errno != EPERM) {
      return err(refused("the bounding set"));
    }
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) {
    return err(refused("the ambient set"));
  }
  if (!set({before.permitted & used, before.permitted & all, 0})) return err(refused("capset"));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return err(refused("no_new_privs"));
  return {};
}

void drop_own_privileges() {
  Sets sets;
  if (!get(sets)) return;
  const std::uint64_t others =
      ~(capability_bits(kUsedCapabilities) | capability_bits(kPassedCapabilities));
  (void)set({sets.effective & others, sets.permitted & others, 0});
}

void drop_all_privileges() {
  for (unsigned bit = 0; bit <= CAP_LAST_CAP; ++bit) ::prctl(PR_CAPBSET_DROP, bit, 0, 0, 0);
  (void)set({});
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

}  // namespace divvy::sys
