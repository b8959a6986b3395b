// Device memory: allocation and its errors, accounting, pointers, copies and fills.

#include <array>
#include <vector>

#include "gpu.h"

namespace divvy::conformance {

CASE(memory, wrong_sizes_are_refused) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(&pointer, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(nullptr, 4096));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, size_t{1} << 46U));
  size_t total = 0;
  OK(cu.cuDeviceTotalMem_v2(&total, device));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, total));
  t.recorded("all_ones", cu.cuMemAlloc_v2(&pointer, ~size_t{0}));
  // A refusal breaks nothing.
  OK(cu.cuMemAlloc_v2(&pointer, 4096));
  OK(cu.cuMemFree_v2(pointer));
}

CASE(memory, wrong_frees_are_refused) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 2 * kMiB));
  t.recorded("inner_pointer", cu.cuMemFree_v2(pointer + 512));
  OK(cu.cuMemFree_v2(pointer));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(pointer));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(0x1234));
  t.recorded("null", cu.cuMemFree_v2(0));
}

CASE(memory, pointers_are_aligned) {
  if (!start_gpu(t)) return;
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  OK(cu.cuMemAlloc_v2(&first, 1));
  OK(cu.cuMemAlloc_v2(&second, 1));
  EQUAL(uint64_t{0}, uint64_t{first % 256});
  EQUAL(uint64_t{0}, uint64_t{second % 256});
  TRUE_(first != second);
  t.recorded("distance_of_small_ones", uint64_t{second > first ? second - first : first - second});
}

CASE(memory, free_memory_falls_by_what_was_taken) {
  if (!start_gpu(t)) return;
  CUdeviceptr warm = 0;
  OK(cu.cuMemAlloc_v2(&warm, 4096));
  const uint64_t before = free_bytes();
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 64 * kMiB));
  EQUAL(uint64_t{64 * kMiB}, before - free_bytes());
  OK(cu.cuMemFree_v2(pointer));
  EQUAL(before, free_bytes());
}

CASE(memory, accounting_is_in_steps_of_2_mib) {
  if (!start_gpu(t)) return;
  CUdeviceptr warm = 0;
  OK(cu.cuMemAlloc_v2(&warm, 4096));
  const uint64_t before = free_bytes();
  struct Size {
    const char* key;
    uint64_t bytes;
  };
  for (const Size& size :
       {Size{"1_byte", 1}, Size{"64_kib", 64 << 10}, Size{"1_mib", kMiB},
        Size{"1_mib_and_a_byte", kMiB + 1}, Size{"2_mib", 2 * kMiB},
        Size{"2_mib_and_a_byte", 2 * kMiB + 1}, Size{"3_mib", 3 * kMiB}, Size{"5_mib", 5 * kMiB}}) {
    CUdeviceptr pointer = 0;
    OK(cu.cuMemAlloc_v2(&pointer, size.bytes));
    const uint64_t taken = before - free_bytes();
    EQUAL(uint64_t{0}, taken % (2 * kMiB));
    t.recorded(size.key, taken);
    OK(cu.cuMemFree_v2(pointer));
    EQUAL(before, free_bytes());
  }
}

CASE(memory, small_allocations_share_a_page) {
  if (!start_gpu(t)) return;
  CUdeviceptr warm = 0;
  OK(cu.cuMemAlloc_v2(&warm, 4096));
  const uint64_t before = free_bytes();
  std::array<CUdeviceptr, 16> pointers{};
  for (CUdeviceptr& pointer : pointers) OK(cu.cuMemAlloc_v2(&pointer, 4096));
  TRUE_(before - free_bytes() <= 2 * kMiB);
  for (const CUdeviceptr pointer : pointers) OK(cu.cuMemFree_v2(pointer));
  EQUAL(before, free_bytes());
}

CASE(memory, pitch_is_aligned) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  size_t pitch = 0;
  OK(cu.cuMemAllocPitch_v2(&pointer, &pitch, 100, 10, 4));
  TRUE_(pitch >= 100 && pitch % 32 == 0);
  t.recorded("pitch_of_100", uint64_t{pitch});
  OK(cu.cuMemFree_v2(pointer));
  OK(cu.cuMemAllocPitch_v2(&pointer, &pitch, 1025, 10, 16));
  t.recorded("pitch_of_1025", uint64_t{pitch});
  OK(cu.cuMemFree_v2(pointer));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocPitch_v2(&pointer, &pitch, 100, 10, 3));
  t.recorded("no_rows", cu.cuMemAllocPitch_v2(&pointer, &pitch, 100, 0, 4));
}

CASE(memory, address_range_is_found_from_inside) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  CUdeviceptr base = 0;
  size_t size = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 3 * kMiB));
  OK(cu.cuMemGetAddressRange_v2(&base, &size, pointer + 12345));
  EQUAL(uint64_t{pointer}, uint64_t{base});
  EQUAL(3 * kMiB, uint64_t{size});
  OK(cu.cuMemGetAddressRange_v2(nullptr, &size, pointer));
  OK(cu.cuMemGetAddressRange_v2(&base, nullptr, pointer));
  t.recorded("of_nothing", cu.cuMemGetAddressRange_v2(&base, &size, 0x1234));
}

CASE(memory, pointer_attributes) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 2 * kMiB));
  unsigned type = 0;
  OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
  EQUAL(uint64_t{CU_MEMORYTYPE_DEVICE}, uint64_t{type});
  CUcontext of = nullptr;
  OK(cu.cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
  TRUE_(of == context);
  CUdeviceptr same = 0;
  OK(cu.cuPointerGetAttribute(&same, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer + 64));
  EQUAL(uint64_t{pointer + 64}, uint64_t{same});
  int ordinal = -1;
  OK(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(ordinal));
  unsigned managed = 7;
  OK(cu.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
  EQUAL(uint64_t{0}, uint64_t{managed & 0xffU});
  CUdeviceptr start = 0;
  size_t size = 0;
  OK(cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + 64));
  OK(cu.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 64));
  EQUAL(uint64_t{pointer}, uint64_t{start});
  EQUAL(2 * kMiB, uint64_t{size});
  unsigned long long first_id = 0;
  unsigned long long second_id = 0;
  CUdeviceptr other = 0;
  OK(cu.cuMemAlloc_v2(&other, 4096));
  OK(cu.cuPointerGetAttribute(&first_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
  OK(cu.cuPointerGetAttribute(&second_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, other));
  TRUE_(first_id != second_id);
  static int ordinary = 0;
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                reinterpret_cast<CUdeviceptr>(&ordinary)));
}

CASE(memory, many_pointer_attributes_at_once) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 4096));
  unsigned type = 99;
  int ordinal = 99;
  std::array<CUpointer_attribute, 2> which = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                              CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 2> values = {&type, &ordinal};
  OK(cu.cuPointerGetAttributes(2, which.data(), values.data(), pointer));
  EQUAL(uint64_t{CU_MEMORYTYPE_DEVICE}, uint64_t{type});
  // Of an ordinary pointer it answers zeros and not an error.
  static int ordinary = 0;
  OK(cu.cuPointerGetAttributes(2, which.data(), values.data(),
                               reinterpret_cast<CUdeviceptr>(&ordinary)));
  EQUAL(uint64_t{0}, uint64_t{type});
}

CASE(memory, fills_of_every_width) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  std::array<unsigned char, 64> host{};
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemsetD8_v2(memory, 0xaa, 64));
  OK(cu.cuMemsetD16_v2(memory + 2, 0x1234, 2));
  OK(cu.cuMemsetD32_v2(memory + 8, 0xdeadbeefU, 1));
  OK(cu.cuMemcpyDtoH_v2(host.data(), memory, 64));
  EQUAL(uint64_t{0xaa}, uint64_t{host[0]});
  EQUAL(uint64_t{0x34}, uint64_t{host[2]});
  EQUAL(uint64_t{0x12}, uint64_t{host[5]});
  EQUAL(uint64_t{0xaa}, uint64_t{host[6]});
  EQUAL(uint64_t{0xef}, uint64_t{host[8]});
  EQUAL(uint64_t{0xde}, uint64_t{host[11]});
  EQUAL(uint64_t{0xaa}, uint64_t{host[12]});
  t.recorded("d32_misaligned", cu.cuMemsetD32_v2(memory + 1, 0, 1));
  t.recorded("d16_misaligned", cu.cuMemsetD16_v2(memory + 1, 0, 1));
  OK(cu.cuMemsetD8_v2(memory, 0, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(0, 0, 64));
  // Last, because a driver that tries would break the context.
  t.recorded("past_the_end", cu.cuMemsetD8_v2(memory, 0, 64 * kMiB));
}

CASE(memory, fills_of_two_dimensions) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  std::array<unsigned char, 256> host{};
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemsetD8_v2(memory, 0, 256));
  OK(cu.cuMemsetD2D8_v2(memory, 64, 7, 10, 3));
  OK(cu.cuMemsetD2D32_v2(memory + 32, 64, 0x01010101U, 2, 4));
  OK(cu.cuMemcpyDtoH_v2(host.data(), memory, 256));
  EQUAL(uint64_t{7}, uint64_t{host[64 * 2 + 9]});
  EQUAL(uint64_t{0}, uint64_t{host[64 * 2 + 10]});
  EQUAL(uint64_t{0}, uint64_t{host[64 * 3]});
  EQUAL(uint64_t{1}, uint64_t{host[64 * 3 + 39]});
}

CASE(memory, copies_go_round) {
  if (!start_gpu(t)) return;
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  std::vector<unsigned> from(1024);
  std::vector<unsigned> back(1024);
  for (unsigned i = 0; i < 1024; ++i) from[i] = i * 2654435761U;
  OK(cu.cuMemAlloc_v2(&first, 4096));
  OK(cu.cuMemAlloc_v2(&second, 4096));
  OK(cu.cuMemcpyHtoD_v2(first, from.data(), 4096));
  OK(cu.cuMemcpyDtoD_v2(second, first, 4096));
  OK(cu.cuMemcpyDtoH_v2(back.data(), second, 4096));
  TRUE_(from == back);
  back.assign(1024, 0);
  OK(cu.cuMemcpy(second, first, 4096));
  OK(cu.cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()), second, 4096));
  TRUE_(from == back);
  OK(cu.cuMemcpyHtoD_v2(first, from.data(), 0));
}

CASE(memory, asynchronous_copies_go_round) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  void* pinned = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemHostAlloc(&pinned, 8192, 0));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  auto* words = static_cast<unsigned*>(pinned);
  for (unsigned i = 0; i < 1024; ++i) words[i] = i + 5;
  OK(cu.cuMemcpyHtoDAsync_v2(memory, words, 4096, stream));
  OK(cu.cuMemcpyDtoHAsync_v2(words + 1024, memory, 4096, stream));
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{1028}, uint64_t{words[2047]});
  OK(cu.cuMemcpyAsync(memory, reinterpret_cast<CUdeviceptr>(words), 4096, stream));
  OK(cu.cuStreamSynchronize(stream));
}

CASE(memory, copies_from_pinned_memory_do_not_block) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  void* pinned = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemHostAlloc(&pinned, 4096, 0));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  *static_cast<unsigned*>(pinned) = 1;
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuMemcpyHtoDAsync_v2(memory, pinned, 4096, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  // The source is read when the copy's turn comes, not when it was asked for.
  *static_cast<volatile unsigned*>(pinned) = 2;
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{2}, uint64_t{word_at(memory)});
}

CASE(memory, wrong_copies_are_refused) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  std::array<char, 64> host{};
  OK(cu.cuMemAlloc_v2(&memory, 2 * kMiB));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(0, host.data(), 64));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2(host.data(), 0x1234, 64));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2(nullptr, memory, 64));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoD_v2(memory, 0x1234, 64));
}

CASE(memory, copies_of_two_dimensions) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  OK(cu.cuMemAllocPitch_v2(&memory, &pitch, 16, 8, 4));
  std::array<unsigned char, 128> from{};
  std::array<unsigned char, 128> back{};
  for (unsigned i = 0; i < 128; ++i) from[i] = static_cast<unsigned char>(i);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from.data();
  copy.srcPitch = 16;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = pitch;
  copy.WidthInBytes = 16;
  copy.Height = 8;
  OK(cu.cuMemcpy2D_v2(&copy));
  copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.srcPitch = pitch;
  copy.srcXInBytes = 4;
  copy.srcY = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = back.data();
  copy.dstPitch = 8;
  copy.WidthInBytes = 8;
  copy.Height = 3;
  OK(cu.cuMemcpy2DUnaligned_v2(&copy));
  EQUAL(uint64_t{2 * 16 + 4}, uint64_t{back[0]});
  EQUAL(uint64_t{4 * 16 + 11}, uint64_t{back[23]});
  copy.WidthInBytes = 9;  // wider than the pitch
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy2D_v2(&copy));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy2D_v2(nullptr));
}

CASE(memory, managed_memory_is_reachable_from_both_sides) {
  if (!load_kernels(t)) return;
  if (attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) != 1) {
    t.skip("this GPU has no managed memory");
    return;
  }
  CUdeviceptr pointer = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocManaged(&pointer, kMiB, 0));
  OK(cu.cuMemAllocManaged(&pointer, 4 * kMiB, CU_MEM_ATTACH_GLOBAL));
  auto* words = reinterpret_cast<volatile unsigned*>(pointer);
  words[0] = 3;
  OK(launch_fill(pointer + 4, 4, 8, nullptr));
  OK(cu.cuCtxSynchronize());
  EQUAL(uint64_t{3}, uint64_t{words[0]});
  EQUAL(uint64_t{8}, uint64_t{words[1]});
  unsigned managed = 0;
  OK(cu.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
  EQUAL(uint64_t{1}, uint64_t{managed & 0xffU});
  OK(cu.cuMemFree_v2(pointer));
}

CASE(memory, managed_memory_can_be_advised_and_prefetched) {
  if (!start_gpu(t)) return;
  if (attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) != 1) {
    t.skip("this GPU has no concurrent managed access");
    return;
  }
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocManaged(&pointer, 4 * kMiB, CU_MEM_ATTACH_GLOBAL));
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, device};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  OK(cu.cuMemAdvise_v2(pointer, 4 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  int read_mostly = 0;
  OK(cu.cuMemRangeGetAttribute(&read_mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, pointer,
                               4 * kMiB));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(read_mostly));
  OK(cu.cuMemPrefetchAsync_v2(pointer, 4 * kMiB, here, 0, nullptr));
  OK(cu.cuMemPrefetchAsync_v2(pointer, 4 * kMiB, host, 0, nullptr));
  OK(cu.cuCtxSynchronize());
  int location = -9;
  OK(cu.cuMemRangeGetAttribute(&location, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, pointer,
                               4 * kMiB));
  TRUE_(location == CU_DEVICE_CPU);
  CUdeviceptr plain = 0;
  OK(cu.cuMemAlloc_v2(&plain, 4096));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemPrefetchAsync_v2(plain, 4096, here, 0, nullptr));
  OK(cu.cuMemFree_v2(pointer));
}

CASE(memory, managed_memory_costs_nothing_before_it_is_touched) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocManaged(&pointer, kMiB, CU_MEM_ATTACH_GLOBAL));
  const uint64_t before = free_bytes();
  CUdeviceptr second = 0;
  OK(cu.cuMemAllocManaged(&second, 64 * kMiB, CU_MEM_ATTACH_GLOBAL));
  t.recorded("cost_of_64_mib", before - free_bytes());
  OK(cu.cuMemFree_v2(second));
  OK(cu.cuMemFree_v2(pointer));
}

}  // namespace divvy::conformance
