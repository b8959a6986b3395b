// Documents of an API server, as any bytes: read as every kind of object, and fed to a queue.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/cluster_queue.h"
#include "kube/gang_size.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace json = boost::json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  boost::system::error_code code;
  const json::value value = json::parse(text, code);
  if (code || !value.is_object()) return 0;
  for (int kind = 0; kind <= static_cast<int>(divvy::kube::GangKind::kJob); ++kind) {
    divvy::kube::GangReference gang;
    gang.kind = static_cast<divvy::kube::GangKind>(kind);
    static_cast<void>(divvy::kube::read_gang_size(gang, value.get_object(), {}));
  }
  auto queue = divvy::kube::ClusterQueue::create({});
  DIVVY_CHECK(queue.has_value(), "{}", queue.error().message);
  divvy::WallTime now(std::chrono::seconds(1'800'000'000));
  for (int kind = 0; kind < static_cast<int>(divvy::kube::kObjectKinds); ++kind) {
    static_cast<void>(
        (*queue)->see(static_cast<divvy::kube::ObjectKind>(kind), value.get_object()));
    static_cast<void>((*queue)->decide(now));
    now += std::chrono::seconds(1);
  }
  for (int kind = 0; kind < static_cast<int>(divvy::kube::kObjectKinds); ++kind) {
    (*queue)->gone(static_cast<divvy::kube::ObjectKind>(kind), value.get_object());
  }
  static_cast<void>((*queue)->decide(now));
  return 0;
}
