// What a tenant sees of NVML: its slices in the order of the control page, and its own processes.
//
// Every function here is for a process that is a tenant; the hooks ask in_tenant() first. Any
// thread.
#pragma once

#include "abi/nvml.h"
#include "shim/session.h"

namespace divvy::shim {

inline bool in_tenant() { return standing() == Standing::kTenant; }

// How many slices there are to see.
unsigned int visible_slices();
// The slice of a device, or -1: none of the tenant's.
int slice_of_handle(nvmlDevice_t device);
// The device of a slice.
nvmlReturn_t handle_of_slice(int slice, nvmlDevice_t* device);

// Whether a process, named as NVML names it, is the tenant's. The caller's own is put as getpid()
// puts it: in a container the two differ.
bool is_tenants_process(unsigned int* pid);

}  // namespace divvy::shim
