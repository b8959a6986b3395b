#include "health/sampler.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/clock.h"
#include "health/gpu_sample.h"
#include "health/sample_message.h"
#include "nvml/error.h"

namespace divvy::health {
namespace {

// So many samples in a row in which nothing ran make a GPU idle.
constexpr int kIdleAfter = 10;

// One GPU, on a thread of its own.
class Watcher {
 public:
  Watcher(nvml::Library& library, int channel, const SamplerOrders& orders,
          const SamplerOrders::Gpu& gpu)
      : library_(library), channel_(channel), orders_(orders), gpu_(gpu) {}

  [[noreturn]] void run() {
    for (;;) {
      const TimePoint began = clock_.now();
      look();
      wait_until(began + pause());
    }
  }

 private:
  [[nodiscard]] std::chrono::milliseconds pause() const {
    return idle_looks_ >= kIdleAfter ? orders_.idle_interval : orders_.interval;
  }

  void look() {
    if (!device_) {
      const Result<nvml::Device> found = find();
      if (!found) return send_failure(found.error());
      device_ = *found;
    }
    // Before the first sample, so that whoever has seen a sample knows that XIDs are waited for.
    // Not every driver or user can wait for events; the samples tell the rest.
    if (!events_) {
      const std::array devices = {*device_};
      if (auto events = library_.watch_xids(devices)) events_ = *std::move(events);
    }
    // A question that every GPU answers; the sample alone does not say why a field is missing.
    const auto memory = library_.memory(*device_);
    if (!memory && memory.error().code != ErrorCode::kUnsupported &&
        memory.error().code != ErrorCode::kPermissionDenied) {
      return send_failure(memory.error());
    }
    SampleMessage message{take_sample(library_, *device_, gpu_.index, gpu_.uuid, clock_.wall_now()),
                          {}};
    message.sample.last_xid = last_xid_;
    idle_looks_ = message.sample.gpu_percent.value_or(0) == 0 ? idle_looks_ + 1 : 0;
    message.next = pause();
    send(message);
  }

  // Indices may have moved since the daemon counted: a GPU that is gone leaves no gap.
  Result<nvml::Device> find() {
    auto usual = library_.device(gpu_.index.value());
    if (!usual) return usual;
    if (is_ours(*usual)) return usual;
    DIVVY_TRY(count, library_.device_count());
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i == gpu_.index.value()) continue;
      const auto device = library_.device(i);
      if (device && is_ours(*device)) return device;
    }
    return err(nvml::to_error(NVML_ERROR_GPU_IS_LOST, "the driver does not list it any more"));
  }

  bool is_ours(nvml::Device device) {
    const auto text = library_.uuid(device);
    if (!text) return false;
    const auto uuid = model::GpuUuid::parse(*text);
    return uuid && *uuid == gpu_.uuid;
  }

  void wait_until(TimePoint deadline) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock_.now());
      if (left.count() <= 0) return;
      const auto event = events_ ? events_->wait(left) : Result<std::optional<nvml::Xid>>();
      // An event set of a GPU that is lost answers at once, with an error.
      if (!events_ || !event) {
        clock_.wait_until(deadline, [] { return false; });
        return;
      }
      if (!*event) continue;
      last_xid_ = (*event)->number;
      send(XidMessage{gpu_.uuid, (*event)->number});
    }
  }

  void send_failure(const Error& error) {
    auto kind = FailedMessage::Kind::kError;
    if (nvml::says_gpu_is_lost(error)) kind = FailedMessage::Kind::kLost;
    if (nvml::says_reset_is_required(error)) kind = FailedMessage::Kind::kResetRequired;
    idle_looks_ = 0;
    send(FailedMessage{gpu_.uuid, pause(), kind, error.message});
  }

  void send(const SamplerMessage& message) const {
    const std::string text = write_message(message);
    // The daemon is gone, and so is the reason to be here.
    if (::send(channel_, text.data(), text.size(), MSG_NOSIGNAL) < 0) ::_exit(0);
  }

  nvml::Library& library_;
  const int channel_;
  const SamplerOrders& orders_;
  const SamplerOrders::Gpu& gpu_;
  SystemClock clock_;
  std::optional<nvml::Device> device_;
  std::unique_ptr<nvml::XidEvents> events_;
  std::optional<std::uint64_t> last_xid_;
  int idle_looks_ = 0;
};

}  // namespace

int run_sampler(nvml::Library& library, int channel) {
  // Belt and braces: the channel closes when the daemon dies, but a thread that is stuck in the
  // driver must not keep the process.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::array<char, kMaxSampleMessage> buffer{};
  const ssize_t got = ::recv(channel, buffer.data(), buffer.size(), 0);
  if (got <= 0) return 1;
  const auto orders = read_orders({buffer.data(), static_cast<std::size_t>(got)});
  if (!orders) return 1;
  for (const SamplerOrders::Gpu& gpu : orders->gpus) {
    std::thread([&library, channel, &orders, &gpu] {
      Watcher(library, channel, *orders, gpu).run();
    }).detach();
  }
  // Nothing else comes over the channel: it becomes readable when the daemon is gone.
  pollfd gone{channel, POLLIN, 0};
  while (::poll(&gone, 1, -1) < 0 && errno == EINTR) {
  }
  ::_exit(0);
}

}  // namespace divvy::health
