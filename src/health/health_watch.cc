#include "health/health_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "health/sampler.h"
#include "sys/own_child.h"

namespace divvy::health {
namespace {

// A sampler that ends at once is started less and less often.
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr Duration kStable = std::chrono::minutes(1);
// Children that were killed and do not end, because the driver holds them; no more are made then.
constexpr std::size_t kMostStuck = 4;
constexpr std::size_t kMostProbeWords = 200;
// Packets of the sampler that are read in one go.
constexpr int kPacketsPerRound = 256;

// One packet, or nothing where there is none; `closed` when there never will be.
std::optional<std::string> receive(int channel, bool& closed) {
  std::array<char, kMaxSampleMessage + 1> buffer{};
  ssize_t got = 0;
  do {
    got = ::recv(channel, buffer.data(), buffer.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  closed = got == 0 || (got < 0 && errno != EAGAIN);
  if (got <= 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(got));
}

struct Probe {
  sys::OwnChild child;
  TimePoint deadline;
};

}  // namespace

class HealthWatch::Impl {
 public:
  explicit Impl(Parts parts)
      : parts_(std::move(parts)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        board_(parts_.settings, parts_.gpus, parts_.clock) {
    for (const auto& [gpu, cordon] : parts_.cordons) board_.set_cordon(gpu, cordon);
  }

  ~Impl() {
    stopping_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
  }

  Status start() {
    if (!wake_)
      return err(ErrorCode::kResourceExhausted, "no descriptor: {}", std::strerror(errno));
    deliver();
    thread_ = std::thread([this] { run(); });
    return {};
  }

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  std::vector<GpuHealth> all() const {
    const std::lock_guard lock(mutex_);
    return board_.all();
  }

  SamplerReport sampler() const {
    const std::lock_guard lock(mutex_);
    return report_;
  }

  Status cordon(const model::GpuUuid& gpu, const std::optional<model::Cordon>& cordon) {
    const bool ours = std::ranges::find(parts_.gpus, gpu, &WatchedGpu::uuid) != parts_.gpus.end();
    if (!ours) return err(ErrorCode::kNotFound, "there is no GPU {} here", gpu);
    if (parts_.keep_cordon) {
      DIVVY_RETURN_IF_ERROR(with_context(parts_.keep_cordon(gpu, cordon), "nothing was changed"));
    }
    {
      const std::lock_guard lock(mutex_);
      board_.set_cordon(gpu, cordon);
    }
    deliver();
    wake();
    return {};
  }

 private:
  // Changes are passed on in the order in which they happened, whoever passes them on.
  void deliver() {
    const std::lock_guard in_order(delivery_);
    std::vector<GpuHealth> changed;
    std::vector<Event> news;
    {
      const std::lock_guard lock(mutex_);
      changed = board_.take_changed();
      news = board_.take_news();
    }
    // Whoever hears of a change finds it in force.
    for (const GpuHealth& health : changed) parts_.changed(health);
    for (Event& event : news) parts_.events.add(std::move(event));
    next_tick_ = parts_.tick();
  }

  void run() {
    while (!stopping_) {
      HealthBoard::Todo todo;
      {
        const std::lock_guard lock(mutex_);
        todo = board_.tick();
      }
      deliver();
      const TimePoint now = parts_.clock.now();
      if (todo.new_sampler && sampler_)
        replace_sampler("it is stuck, or a GPU has to be asked anew");
      if (!sampler_ && now >= sampler_due_) start_sampler();
      for (const model::GpuUuid& gpu : todo.probes) start_probe(gpu);
      TimePoint next = todo.next;
      {
        const std::lock_guard in_order(delivery_);
        next = std::min(next, next_tick_);
      }
      if (!sampler_) next = std::min(next, sampler_due_);
      for (const auto& [gpu, probe] : probes_) next = std::min(next, probe.deadline);
      wait(next);
    }
  }

  void wait(TimePoint until) {
    std::vector<pollfd> watched = {{wake_.get(), POLLIN, 0}};
    if (sampler_) watched.push_back({sampler_->channel(), POLLIN, 0});
    for (const auto& [gpu, probe] : probes_) watched.push_back({probe.child.life(), POLLIN, 0});
    int timeout = -1;
    if (until != TimePoint::max()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - parts_.clock.now()).count();
      timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
    }
    ::poll(watched.data(), watched.size(), timeout);
    std::uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
    read_sampler();
    collect_probes();
    std::erase_if(stuck_, [](sys::OwnChild& child) { return child.ended().has_value(); });
  }

  // --- The sampler ---

  void start_sampler() {
    pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
    sampler_due_ = parts_.clock.now() + pause_;
    if (stuck_.size() >= kMostStuck) return;
    SamplerOrders orders;
    orders.interval = std::chrono::ceil<std::chrono::milliseconds>(parts_.settings.sample_interval);
    orders.idle_interval =
        std::chrono::ceil<std::chrono::milliseconds>(parts_.settings.idle_interval);
    for (const WatchedGpu& gpu : parts_.gpus) orders.gpus.push_back({gpu.index, gpu.uuid});
    auto child = sys::OwnChild::start({.arguments = {"--sampler", std::to_string(kSamplerChannel)},
                                       .channel = kSamplerChannel,
                                       .environment = {}});
    const std::string text = write_orders(orders);
    if (!child || ::send(child->channel(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
      log_error("sampler not started",
                {{"reason", child ? std::strerror(errno) : child.error().message.c_str()}});
      return;
    }
    sampler_ = *std::move(child);
    sampler_since_ = parts_.clock.now();
    const std::lock_guard lock(mutex_);
    board_.sampler_started();
    report_.pid = sampler_->pid();
  }

  void replace_sampler(const std::string& why) {
    Event event;
    event.kind = EventKind::kSampler;
    event.reason = fmt::format("the sampler (pid {}) is started anew: {}", sampler_->pid(), why);
    parts_.events.add(std::move(event));
    bury(*std::exchange(sampler_, std::nullopt));
    const TimePoint now = parts_.clock.now();
    if (now - sampler_since_ >= kStable) pause_ = Duration(0);
    sampler_due_ = now + pause_;
    const std::lock_guard lock(mutex_);
    report_.pid = 0;
    ++report_.restarts;
  }

  void read_sampler() {
    bool closed = false;
    for (int i = 0; sampler_ && !closed && i < kPacketsPerRound; ++i) {
      const auto packet = receive(sampler_->channel(), closed);
      if (!packet) break;
      const auto message = read_message(*packet);
      if (!message) {
        replace_sampler("it sent what is no message");
        return;
      }
      if (const auto* sample = std::get_if<SampleMessage>(&*message)) {
        parts_.samples.put(sample->sample);
      }
      const std::lock_guard lock(mutex_);
      board_.heard(*message);
    }
    if (closed) replace_sampler("it has ended");
  }

  // Kills it and keeps it until it has ended, which one that the driver holds may not do.
  void bury(sys::OwnChild child) {
    child.kill();
    child.close_channel();
    if (!child.ended()) stuck_.push_back(std::move(child));
  }

  // --- Probes ---

  void start_probe(const model::GpuUuid& gpu) {
    {
      const std::lock_guard lock(mutex_);
      board_.probe_started(gpu);
    }
    if (stuck_.size() >= kMostStuck) {
      end_probe(gpu, {ProbeResult::Outcome::kHung, "earlier ones have not come back"});
      return;
    }
    // Only this one: the driver looks at nothing that it is not shown.
    auto child = sys::OwnChild::start({.arguments = {"--probe", gpu.str()},
                                       .channel = STDOUT_FILENO,
                                       .environment = {"CUDA_VISIBLE_DEVICES=" + gpu.str()}});
    if (!child) {
      end_probe(gpu, {ProbeResult::Outcome::kFailed, child.error().message});
      return;
    }
    probes_.insert_or_assign(
        gpu, Probe{*std::move(child), parts_.clock.now() + parts_.settings.probe_time});
  }

  void collect_probes() {
    for (auto entry = probes_.begin(); entry != probes_.end();) {
      Probe& probe = entry->second;
      const model::GpuUuid gpu = entry->first;
      if (const auto status = probe.child.ended()) {
        bool closed = false;
        const std::string words = receive(probe.child.channel(), closed).value_or("");
        entry = probes_.erase(entry);
        end_probe(gpu, result_of(*status, words));
      } else if (parts_.clock.now() >= probe.deadline) {
        bury(std::move(probe.child));
        entry = probes_.erase(entry);
        end_probe(gpu, {ProbeResult::Outcome::kHung, {}});
      } else {
        ++entry;
      }
    }
  }

  static ProbeResult result_of(int status, std::string_view words) {
    if (status == 0) return {};
    std::string why = escape_for_terminal(trim(words.substr(0, kMostProbeWords)));
    if (why.empty()) why = fmt::format("it ended with status {}", status);
    return {ProbeResult::Outcome::kFailed, std::move(why)};
  }

  void end_probe(const model::GpuUuid& gpu, const ProbeResult& result) {
    const std::lock_guard lock(mutex_);
    board_.probe_ended(gpu, result);
  }

  Parts parts_;
  UniqueFd wake_;
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;
  HealthBoard board_;                       // Guarded by mutex_
  SamplerReport report_;                    // Guarded by mutex_
  std::mutex delivery_;                     // Before mutex_
  TimePoint next_tick_ = TimePoint::max();  // Guarded by delivery_

  // Only the thread touches these.
  std::optional<sys::OwnChild> sampler_;
  TimePoint sampler_since_;
  TimePoint sampler_due_;
  Duration pause_{0};
  std::map<model::GpuUuid, Probe> probes_;
  std::vector<sys::OwnChild> stuck_;

  std::thread thread_;
};

HealthWatch::HealthWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HealthWatch::~HealthWatch() = default;

Result<std::unique_ptr<HealthWatch>> HealthWatch::create(Parts parts) {
  auto impl = std::make_unique<Impl>(std::move(parts));
  DIVVY_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<HealthWatch>(new HealthWatch(std::move(impl)));
}

std::vector<GpuHealth> HealthWatch::all() const { return impl_->all(); }
SamplerReport HealthWatch::sampler() const { return impl_->sampler(); }
Status HealthWatch::cordon(const model::GpuUuid& gpu, const std::optional<model::Cordon>& cordon) {
  return impl_->cordon(gpu, cordon);
}
void HealthWatch::wake() { impl_->wake(); }

}  // namespace divvy::health
