// Which GPUs CUDA shows to a tenant: CUDA_VISIBLE_DEVICES, rewritten to UUIDs of granted GPUs.
#pragma once

#include <cstddef>

#include "wire/pages.h"

namespace divvy::shim {

// "GPU-" and 32 hexadecimal digits in five groups, with the end of the text.
constexpr size_t kUuidTextBytes = 41;
void write_uuid(const uint8_t (&uuid)[16], char (&text)[kUuidTextBytes]);

// Enough for every slice of a tenant.
constexpr size_t kVisibleBytes = wire::kMaxGpus * kUuidTextBytes;

// What CUDA_VISIBLE_DEVICES becomes, given what the program has there (null: nothing). Numbers
// count the tenant's slices, and a UUID may be cut short as long as it means one of them; as with
// CUDA, the list ends before the first entry that means none. An empty list shows no GPU.
void visible_devices(const wire::ControlPage& page, const char* wanted,
                     char (&text)[kVisibleBytes]);

}  // namespace divvy::shim
