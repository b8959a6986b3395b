#include "gpuload/calibrate.h"

#include <algorithm>

#include "gpuload/kernel_launch.h"

namespace divvy::gpuload {
namespace {

constexpr int kRepeats = 7;
constexpr double kTargetUs = 400;

double fastest_us(const Session& session, bool narrow, uint64_t iterations, int repeats) {
  const Stream stream(session);
  const DeviceBuffer sink(session, 4);
  const Event start(session);
  const Event end(session);
  KernelLaunch spin(session, LaunchKind::kPlain, session.spin, spin_geometry(session, narrow),
                    {iterations, sink.get()});
  double fastest = 0;
  for (int i = 0; i < repeats; ++i) {
    start.record(stream.get());
    spin.launch(stream.get());
    end.record(stream.get());
    end.synchronize();
    const double us = end.us_since(start);
    fastest = i == 0 ? us : std::min(fastest, us);
  }
  return fastest;
}

}  // namespace

double calibrate_iterations_per_us(const Session& session, bool narrow) {
  uint64_t iterations = 1000;
  double us = fastest_us(session, narrow, iterations, 2);
  while (us < kTargetUs && iterations < (1ULL << 40U)) {
    iterations *= 2;
    us = fastest_us(session, narrow, iterations, 2);
  }
  const double once = fastest_us(session, narrow, iterations, kRepeats);
  const double twice = fastest_us(session, narrow, 2 * iterations, kRepeats);
  const double difference = twice - once;
  const auto work = static_cast<double>(iterations);
  return difference > once / 4 ? work / difference : 2 * work / std::max(twice, 0.001);
}

}  // namespace divvy::gpuload
