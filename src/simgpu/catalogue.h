// The GPU models that can be simulated, with the facts that a program can ask a driver for.
//
// Used by the configuration (config.cc). Pure; callable from any thread.
#pragma once

#include <string>

#include "simgpu/shared.h"

namespace divvy::simgpu {

// How GPUs of a model are usually joined by NVLink.
enum class Fabric {
  kNone,    // the model has no NVLink
  kBridge,  // a bridge that has to be bought and put on; no links unless asked for
  kMesh,    // links go straight from GPU to GPU
  kSwitch,  // every link ends in an NVSwitch
};

// What joins GPUs of the model `name`; kNone for a model that is not in the catalogue.
Fabric fabric_of(const std::string& name);

// The entry of `candidates` that `text` was probably meant to be, or "" when none is near.
template <typename Names>
std::string nearest_name(const std::string& text, const Names& candidates);

// How many letters have to be typed, dropped or exchanged to turn one word into the other,
// capitals ignored.
size_t spelling_distance(const std::string& a, const std::string& b);

template <typename Names>
std::string nearest_name(const std::string& text, const Names& candidates) {
  std::string best;
  size_t best_distance = 3;  // further away is a guess, not a correction
  for (const auto& candidate : candidates) {
    const size_t distance = spelling_distance(text, candidate);
    if (distance < best_distance && distance < std::string(candidate).size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace divvy::simgpu
