// NVML: lists of processes, with only the tenant's own in them.
//
// NVML's way with lists is that the caller says how many entries fit and is told how many there
// are. The real list is therefore fetched whole, into memory of ours, and what is left of it is
// given out by the same rule.
#include <string.h>
#include <sys/mman.h>

#include "shim/export.h"
#include "shim/nvml_real.h"
#include "shim/nvml_view.h"

using divvy::shim::g_nvml;
using divvy::shim::in_tenant;
using divvy::shim::is_tenants_process;

namespace {

// Memory for a list, from the kernel: the hooks must not call malloc.
template <typename Entry>
class Entries {
 public:
  explicit Entries(unsigned int count) : count_(count) {
    void* memory = mmap(nullptr, count * sizeof(Entry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    entries_ = memory != MAP_FAILED ? static_cast<Entry*>(memory) : nullptr;
  }
  ~Entries() {
    if (entries_ != nullptr) munmap(entries_, count_ * sizeof(Entry));
  }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;
  Entry* get() { return entries_; }

 private:
  Entry* entries_;
  unsigned int count_;
};

constexpr unsigned int kFirstTry = 1024;
constexpr unsigned int kMost = 1U << 20U;

// `fetch(entries, &count)` asks NVML; `keep(entry)` says whose it is and may put its pid right.
template <typename Entry, typename Fetch, typename Keep>
nvmlReturn_t filtered(unsigned int* count, Entry* out, Fetch fetch, Keep keep) {
  for (unsigned int room = kFirstTry; room <= kMost; room *= 4) {
    Entries<Entry> all(room);
    if (all.get() == nullptr) return NVML_ERROR_MEMORY;
    unsigned int found = room;
    const nvmlReturn_t result = fetch(all.get(), &found);
    if (result == NVML_ERROR_INSUFFICIENT_SIZE) continue;
    if (result != NVML_SUCCESS) return result;
    unsigned int kept = 0;
    for (unsigned int i = 0; i < found; ++i) {
      if (keep(all.get()[i])) all.get()[kept++] = all.get()[i];
    }
    const unsigned int fits = *count;
    *count = kept;
    if (kept > fits) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (kept > 0) memcpy(out, all.get(), kept * sizeof(Entry));
    return NVML_SUCCESS;
  }
  return NVML_ERROR_INSUFFICIENT_SIZE;
}

template <typename Entry>
bool keep_by_pid(Entry& entry) {
  return is_tenants_process(&entry.pid);
}

template <typename Entry, typename Real>
nvmlReturn_t running(nvmlDevice_t device, unsigned int* count, Entry* out, Real real) {
  if (!in_tenant() || count == nullptr || (*count > 0 && out == nullptr)) {
    return real(device, count, out);
  }
  return filtered(
      count, out, [&](Entry* entries, unsigned int* found) { return real(device, found, entries); },
      keep_by_pid<Entry>);
}

}  // namespace

#define DIVVY_RUNNING_HOOK(symbol, Entry)                                                  \
  DIVVY_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int* count, Entry* out) { \
    DIVVY_NEED_NVML(symbol);                                                               \
    return running(device, count, out, g_nvml.symbol);                                     \
  }
DIVVY_RUNNING_HOOK(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
DIVVY_RUNNING_HOOK(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                                nvmlProcessDetailList_t* list) {
  DIVVY_NEED_NVML(nvmlDeviceGetRunningProcessDetailList);
  if (!in_tenant() || list == nullptr || list->version != nvmlProcessDetailList_v1 ||
      (list->numProcArrayEntries > 0 && list->procArray == nullptr)) {
    return g_nvml.nvmlDeviceGetRunningProcessDetailList(device, list);
  }
  return filtered(
      &list->numProcArrayEntries, list->procArray,
      [&](nvmlProcessDetail_v1_t* entries, unsigned int* found) {
        nvmlProcessDetailList_t whole = *list;
        whole.procArray = entries;
        whole.numProcArrayEntries = *found;
        const nvmlReturn_t result = g_nvml.nvmlDeviceGetRunningProcessDetailList(device, &whole);
        *found = whole.numProcArrayEntries;
        return result;
      },
      keep_by_pid<nvmlProcessDetail_v1_t>);
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                          nvmlProcessUtilizationSample_t* out,
                                                          unsigned int* count,
                                                          unsigned long long since) {
  DIVVY_NEED_NVML(nvmlDeviceGetProcessUtilization);
  if (!in_tenant() || count == nullptr) {
    return g_nvml.nvmlDeviceGetProcessUtilization(device, out, count, since);
  }
  if (out == nullptr) *count = 0;
  return filtered(
      count, out,
      [&](nvmlProcessUtilizationSample_t* entries, unsigned int* found) {
        return g_nvml.nvmlDeviceGetProcessUtilization(device, entries, found, since);
      },
      keep_by_pid<nvmlProcessUtilizationSample_t>);
}

DIVVY_EXPORT nvmlReturn_t
nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* list) {
  DIVVY_NEED_NVML(nvmlDeviceGetProcessesUtilizationInfo);
  if (!in_tenant() || list == nullptr || list->version != nvmlProcessesUtilizationInfo_v1) {
    return g_nvml.nvmlDeviceGetProcessesUtilizationInfo(device, list);
  }
  if (list->procUtilArray == nullptr) list->processSamplesCount = 0;
  return filtered(
      &list->processSamplesCount, list->procUtilArray,
      [&](nvmlProcessUtilizationInfo_v1_t* entries, unsigned int* found) {
        nvmlProcessesUtilizationInfo_t whole = *list;
        whole.procUtilArray = entries;
        whole.processSamplesCount = *found;
        const nvmlReturn_t result = g_nvml.nvmlDeviceGetProcessesUtilizationInfo(device, &whole);
        *found = whole.processSamplesCount;
        return result;
      },
      keep_by_pid<nvmlProcessUtilizationInfo_v1_t>);
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int* count,
                                                      unsigned int* pids) {
  DIVVY_NEED_NVML(nvmlDeviceGetAccountingPids);
  if (!in_tenant() || count == nullptr || (*count > 0 && pids == nullptr)) {
    return g_nvml.nvmlDeviceGetAccountingPids(device, count, pids);
  }
  return filtered(
      count, pids,
      [&](unsigned int* entries, unsigned int* found) {
        return g_nvml.nvmlDeviceGetAccountingPids(device, found, entries);
      },
      [](unsigned int& pid) { return is_tenants_process(&pid); });
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
                                                       nvmlAccountingStats_t* stats) {
  DIVVY_NEED_NVML(nvmlDeviceGetAccountingStats);
  unsigned int asked = pid;
  if (in_tenant() && !is_tenants_process(&asked)) return NVML_ERROR_NOT_FOUND;
  return g_nvml.nvmlDeviceGetAccountingStats(device, pid, stats);
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device,
                                                          unsigned int* stats) {
  DIVVY_NEED_NVML(nvmlDeviceGetAccountingStats_v2);
  if (in_tenant() && stats != nullptr) {
    unsigned int asked = *stats;
    if (!is_tenants_process(&asked)) return NVML_ERROR_NOT_FOUND;
  }
  return g_nvml.nvmlDeviceGetAccountingStats_v2(device, stats);
}
