#include "sys/privileges.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <vector>

namespace divvy::sys {
namespace {

// A line of /proc/self/status as a number.
std::uint64_t status_bits(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1), nullptr, 16);
  }
  return ~std::uint64_t{0};
}

// What is given up is gone for good, so it is done in a process of its own.
template <typename Check>
void in_child(const Check& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

std::uint64_t used() { return capability_bits(kUsedCapabilities); }
std::uint64_t passed() { return capability_bits(kPassedCapabilities); }

TEST(Privileges, KeepOnlyWhatIsListed) {
  const std::uint64_t before = status_bits("CapPrm");
  in_child([before] {
    return drop_privileges({}).has_value() && status_bits("CapEff") == (used() & before) &&
           status_bits("CapPrm") == ((used() | passed()) & before) && status_bits("CapInh") == 0 &&
           (before == 0 || status_bits("NoNewPrivs") == 1);
  });
}

TEST(Privileges, KeepWhatIsAskedForBesides) {
  const std::uint64_t before = status_bits("CapPrm");
  in_child([before] {
    const std::vector<std::string> keep = {"NET_BIND_SERVICE"};
    const std::string_view name = "NET_BIND_SERVICE";
    return drop_privileges(keep).has_value() &&
           status_bits("CapEff") == ((used() | capability_bits({&name, 1})) & before);
  });
}

TEST(Privileges, DroppedCapabilitiesCannotBeRegained) {
  in_child([] {
    return drop_privileges({}).has_value() && drop_privileges({}).has_value() &&
           (status_bits("CapEff") & ~used()) == 0;
  });
}

TEST(Privileges, OfTheKeeperNothingIsLeft) {
  in_child([] {
    drop_all_privileges();
    return status_bits("CapEff") == 0 && status_bits("CapPrm") == 0;
  });
}

}  // namespace
}  // namespace divvy::sys
