// Random lives of services: replicas start slowly, hang, die and are preempted, people update,
// scale and roll back, requests come and go, the daemon forgets. Whatever happens, what plan.h
// promises holds after every round; when nothing happens any more, everything comes to rest.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "serve/plan_testing.h"
#include "serve/service_document.h"

namespace divvy::serve {
namespace {

using model::JobId;
using model::Seconds;

struct Event {
  std::uint8_t kind = 0;
  std::uint16_t lot = 0;
};

void showValue(const Event& event, std::ostream& out) {
  out << int{event.kind} << ':' << event.lot;
}

std::vector<Event> any_events() {
  return *rc::gen::container<std::vector<Event>>(
      rc::gen::build<Event>(rc::gen::set(&Event::kind, rc::gen::inRange<std::uint8_t>(0, 17)),
                            rc::gen::set(&Event::lot, rc::gen::arbitrary<std::uint16_t>())));
}

class Life {
 public:
  Life() : world_(test_service(2, 2)) {}

  void apply(const Event& event) {
    Service& service = world_.service_;
    const WallTime now = world_.now_;
    Replica* const job = any_job(event.lot);
    switch (event.kind) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (job != nullptr && job->phase == Phase::kWaiting) world_.run(job->job);
        break;
      case 4:
      case 5:
      case 6:
        if (job != nullptr && job->phase == Phase::kRunning) job->healthy = true;
        break;
      case 7:  // one that hangs
        if (job != nullptr) job->healthy = false;
        break;
      case 8:
        if (job != nullptr) world_.end(job->job);
        break;
      case 9:  // preempted, and later queued again
        if (job != nullptr && job->phase != Phase::kEnded) {
          job->phase = job->phase == Phase::kStopping ? Phase::kWaiting : Phase::kStopping;
        }
        if (job != nullptr) job->healthy = false;
        break;
      case 10:
        (void)update(service, test_replica(), event.lot % 4 == 0 ? event.lot % 99 + 1 : 100, "ada",
                     now);
        break;
      case 11:
        (void)promote(service, event.lot % 2 == 0 ? 100 : event.lot % 100 + 1, "ada", now);
        break;
      case 12:
        (void)roll_back(service, {}, "ada", now);
        break;
      case 13: {
        const std::uint32_t least = event.lot % 4;
        Settings settings = test_settings(least, least + event.lot / 4 % 3);
        if (event.lot / 16 % 3 == 1) settings.scale.latency_ms = 50;
        if (event.lot / 16 % 3 == 2) settings.scale.gpu_use = 70;
        if (settings.scale.latency_ms + settings.scale.gpu_use > 0 && event.lot % 2 == 0) {
          settings.scale.in_flight = 0;
        }
        (void)change_settings(service, settings, "ada", now);
        break;
      }
      case 14:
        traffic_.in_flight = event.lot % 20;
        traffic_.requests += traffic_.in_flight;
        traffic_.latency_ms = event.lot % 5 == 0 ? std::nullopt : std::optional(event.lot % 200U);
        traffic_.gpu_use = event.lot % 3 == 0 ? std::nullopt : std::optional(event.lot % 150U);
        world_.traffic_ = event.lot % 7 == 0 ? std::nullopt : std::optional(traffic_);
        break;
      case 15:  // the daemon is replaced
        world_.memory_ = {};
        service = read_service(write_service(service)).value();
        break;
      case 16:
        world_.pass(Seconds(event.lot % 200));
        break;
      default:
        break;
    }
    if (job != nullptr && world_.jobs_.contains(job->job) && job->in_rotation) {
      job->in_flight = event.lot % 3;
    }
  }

  void check_round() {
    const Service before = world_.service_;
    const std::map<JobId, Replica> jobs = world_.jobs_;
    const Plan made = world_.round();
    const Service& after = world_.service_;
    RC_ASSERT(check(after).has_value());
    // Never more than are wanted, and one.
    const std::uint32_t wanted =
        std::max<std::uint32_t>(after.desired, after.candidate || before.candidate ? 1 : 0);
    if (!made.start.empty()) RC_ASSERT(world_.jobs_.size() <= wanted + 1U);
    // What was ready before and did not fail by itself was not taken away below what is wanted.
    std::uint32_t could = 0;  // be ready
    std::uint32_t are = 0;
    for (const auto& [id, known] : before.replicas) {
      const auto job = jobs.find(id);
      if (known.ready && job != jobs.end() && job->second.phase == Phase::kRunning &&
          job->second.healthy)
        ++could;
    }
    for (const auto& [id, known] : after.replicas) are += known.ready ? 1U : 0U;
    RC_ASSERT(are >= std::min(could, wanted));
    for (const JobId id : made.stop) {
      const Known& known = after.replicas.at(id);
      const Replica& job = jobs.at(id);
      RC_ASSERT(known.retiring.has_value());
      // It is out of rotation and does nothing, or had its time.
      RC_ASSERT(job.phase == Phase::kWaiting || (!job.in_rotation && job.in_flight == 0) ||
                world_.now_ - *known.retiring >= after.settings.drain);
    }
    for (const auto& [id, weight] : weights(after)) {
      RC_ASSERT(after.replicas.at(id).ready);
      RC_ASSERT(weight >= 1U && weight <= 256U);
    }
    // A version is taken back with its reason, and never the stable one.
    if (before.candidate && !after.candidate && after.stable == before.stable) {
      RC_ASSERT(!after.find(before.candidate->version)->rejected.empty());
    }
    RC_ASSERT(after.candidate.has_value() || after.stable == before.stable ||
              (before.candidate && after.stable == before.candidate->version));
  }

  void check_rest() {
    world_.traffic_ =
        Traffic{.in_flight = 0, .requests = traffic_.requests, .latency_ms = {}, .gpu_use = 0};
    RC_ASSERT(world_.settle(2000) < 2000);
    const Service& service = world_.service_;
    RC_ASSERT(world_.jobs_.size() == world_.ready());
    const Scale& scale = service.settings.scale;
    RC_ASSERT(service.desired == scale.least);
    if (!service.candidate) {
      RC_ASSERT(world_.ready(service.stable) == world_.ready());
      RC_ASSERT(world_.ready() == service.desired);
    } else {
      RC_ASSERT(service.candidate->weight < 100U);
      RC_ASSERT(world_.ready(service.candidate->version) >= 1U);
      RC_ASSERT(world_.ready() == std::max<std::uint32_t>(2, service.desired));
    }
    service_deleted();
  }

 private:
  void service_deleted() {
    world_.service_.deleting = true;
    RC_ASSERT(world_.settle(2000) < 2000);
    RC_ASSERT(world_.jobs_.empty());
    RC_ASSERT(world_.round().gone);
  }
  Replica* any_job(std::uint16_t lot) {
    if (world_.jobs_.empty()) return nullptr;
    auto it = world_.jobs_.begin();
    std::advance(it, lot % world_.jobs_.size());
    return &it->second;
  }

  World world_;
  Traffic traffic_;
};

RC_GTEST_PROP(PlanProperty, WhatIsPromisedHoldsWhateverHappens, ()) {
  Life life;
  for (const Event& event : any_events()) {
    life.apply(event);
    life.check_round();
  }
  life.check_rest();
}

}  // namespace
}  // namespace divvy::serve
