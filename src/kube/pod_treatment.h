// How a pod's request is to be treated: Divvy's annotations that go with every dialect (class, cap,
// model, topology, priority, queue, gang). Internal to the room, pure.
#pragma once

#include "base/result.h"
#include "kube/dialect.h"

namespace divvy::kube {

// Puts what the annotations say over what the dialect said.
[[nodiscard]] Status read_treatment(const PodView& pod, Reading& reading);

// A name in "divvy.dev/" that there is not is a slip of the pen, and its pod would run without what
// was meant.
[[nodiscard]] Status check_known_annotations(const PodView& pod);

}  // namespace divvy::kube
