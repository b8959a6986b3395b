// Arrays and mipmapped arrays.
//
// Planar and video formats are not simulated. Sparse and deferred arrays can be made and copied to,
// and take no GPU memory: mapping memory into them (cuMemMapArrayAsync) is not simulated.
#include "simgpu/array.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "abi/cuda_array_formats.h"
#include "simgpu/memory.h"

namespace divvy::simgpu {

Array* resolve_array(CUarray handle) {
  auto* array = reinterpret_cast<Array*>(handle);
  return Driver::get().memory().arrays.contains(array) ? array : nullptr;
}

namespace {

constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                                 CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
constexpr unsigned kUnbackedFlags = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

using Texel = abi::ArrayTexel;

std::optional<Texel> texel_of(CUarray_format format, unsigned channels) {
  if (channels != 1 && channels != 2 && channels != 4) return std::nullopt;
  const Texel texel = abi::array_texel(format, channels);
  if (texel.bytes == 0) return std::nullopt;
  return texel;
}

bool within(const CUDA_ARRAY3D_DESCRIPTOR& d, size_t width, size_t height, size_t depth) {
  return d.Width <= width && d.Height <= height && d.Depth <= depth;
}

// The shapes that a GPU of today takes, by the kind of array.
bool shape_ok(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  if (d.Width == 0 || (d.Flags & ~kKnownFlags) != 0) return false;
  const bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if ((d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    if (d.Width != d.Height || d.Depth == 0 || d.Depth % 6 != 0) return false;
    return within(d, 32768, 32768, layered ? 2046 : 6);
  }
  if ((d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0) {
    return d.Height > 0 && (layered || d.Depth == 0) && within(d, 32768, 32768, 2048);
  }
  if (layered) return d.Depth > 0 && within(d, 32768, 32768, 2048);
  if (d.Depth > 0) return d.Height > 0 && within(d, 16384, 16384, 16384);
  return d.Height > 0 ? within(d, 131072, 65536, 0) : d.Width <= 131072;
}

// Fills in everything but where the array lies, and returns how large it is.
uint64_t lay_out(Array& array, const CUDA_ARRAY3D_DESCRIPTOR& d, const Texel& texel) {
  const auto blocks = [&](size_t texels) { return (texels + texel.side - 1) / texel.side; };
  array.descriptor = d;
  array.element_bytes = texel.bytes;
  array.width = d.Width;
  array.height = blocks(d.Height);
  array.depth = d.Depth;
  array.pitch = blocks(d.Width) * texel.bytes;
  return array.pitch * std::max<size_t>(array.height, 1) * std::max<size_t>(array.depth, 1);
}

Arena::Family family_of(const Array& array) {
  return array.height == 0 ? Arena::Family::kLinear : Arena::Family::kTiled;
}

uint64_t take_memory(Arena& arena, uint64_t bytes, bool charged, Arena::Family family) {
  return charged ? arena.allocate(bytes, family) : arena.reserve(bytes);
}

void give_memory(Arena& arena, uint64_t address, uint64_t bytes, bool charged,
                 Arena::Family family) {
  if (charged) {
    arena.free(address, bytes, family);
  } else {
    arena.unreserve(address, bytes);
  }
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& d) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  const auto texel = texel_of(d.Format, d.NumChannels);
  if (out == nullptr || !texel || !shape_ok(d)) return CUDA_ERROR_INVALID_VALUE;
  auto array = std::make_unique<Array>();
  array->context = call.context;
  array->device = call.context->device;
  array->charged = (d.Flags & kUnbackedFlags) == 0;
  array->bytes = lay_out(*array, d, *texel);
  Arena& arena = device_memory(call.driver, array->device).arena;
  array->address = take_memory(arena, array->bytes, array->charged, family_of(*array));
  if (array->address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Array* key = array.get();
  call.driver.memory().arrays.emplace(key, std::move(array));
  *out = reinterpret_cast<CUarray>(key);
  return CUDA_SUCCESS;
}

// Levels halve every side that is no layer count, down to one texel.
CUDA_ARRAY3D_DESCRIPTOR level_of(CUDA_ARRAY3D_DESCRIPTOR d, unsigned level) {
  const auto half = [&](size_t side) { return side == 0 ? 0 : std::max<size_t>(side >> level, 1); };
  d.Width = half(d.Width);
  d.Height = half(d.Height);
  if ((d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0) d.Depth = half(d.Depth);
  return d;
}

}  // namespace

SIMGPU_EXPORT CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create(out, {d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}

SIMGPU_EXPORT CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create(out, *d);
}

SIMGPU_EXPORT CUresult cuArrayDestroy(CUarray handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  const Array* array = resolve_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A level goes with its mipmapped array.
  if (array->level) return CUDA_SUCCESS;
  driver.synchronize(call.lock, *array->context);
  array = resolve_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  give_memory(device_memory(driver, array->device).arena, array->address, array->bytes,
              array->charged, family_of(*array));
  driver.memory().arrays.erase(array);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Array* array = resolve_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR& d = array->descriptor;
  *out = {d.Width, d.Height, d.Format, d.NumChannels};
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Array* array = resolve_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = array->descriptor;
  return CUDA_SUCCESS;
}

// Only arrays whose memory the program supplies have requirements to tell.
SIMGPU_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                    CUarray handle, CUdevice device) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Array* array = resolve_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || (array->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr uint64_t kTile = uint64_t{64} << 10;
  *out = {};
  out->size = round_up(array->bytes, kTile);
  out->alignment = kTile;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* out,
                                              const CUDA_ARRAY3D_DESCRIPTOR* d,
                                              unsigned int wanted) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  if (out == nullptr || d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto texel = texel_of(d->Format, d->NumChannels);
  if (!texel || !shape_ok(*d)) return CUDA_ERROR_INVALID_VALUE;
  const bool flat = (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const size_t longest = std::max({d->Width, d->Height, flat ? size_t{0} : d->Depth});
  // Levels beyond the one of a single texel are not made.
  const auto most = static_cast<unsigned>(std::bit_width(longest));
  const unsigned count = std::clamp(wanted, 1u, most);

  auto mipmap = std::make_unique<Mipmap>();
  mipmap->context = call.context;
  mipmap->device = call.context->device;
  mipmap->charged = (d->Flags & kUnbackedFlags) == 0;
  std::vector<std::unique_ptr<Array>> levels;
  for (unsigned i = 0; i < count; ++i) {
    auto array = std::make_unique<Array>();
    array->context = call.context;
    array->device = mipmap->device;
    array->level = true;
    array->address = mipmap->bytes;  // relative, until there is memory
    mipmap->bytes += round_up(lay_out(*array, level_of(*d, i), *texel), kSmallUnit);
    levels.push_back(std::move(array));
  }
  mipmap->address = take_memory(device_memory(driver, mipmap->device).arena, mipmap->bytes,
                                mipmap->charged, Arena::Family::kTiled);
  if (mipmap->address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  for (auto& array : levels) {
    array->address += mipmap->address;
    Array* key = array.get();
    mipmap->levels.push_back(reinterpret_cast<CUarray>(key));
    driver.memory().arrays.emplace(key, std::move(array));
  }
  Mipmap* key = mipmap.get();
  driver.memory().mipmaps.emplace(key, std::move(mipmap));
  *out = reinterpret_cast<CUmipmappedArray>(key);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle,
                                                unsigned int level) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const auto& mipmaps = call.driver.memory().mipmaps;
  const auto it = mipmaps.find(reinterpret_cast<Mipmap*>(handle));
  if (it == mipmaps.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || level >= it->second->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = it->second->levels[level];
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  auto& mipmaps = driver.memory().mipmaps;
  auto it = mipmaps.find(reinterpret_cast<Mipmap*>(handle));
  if (it == mipmaps.end()) return CUDA_ERROR_INVALID_HANDLE;
  driver.synchronize(call.lock, *it->second->context);
  it = mipmaps.find(reinterpret_cast<Mipmap*>(handle));
  if (it == mipmaps.end()) return CUDA_ERROR_INVALID_HANDLE;
  const Mipmap& mipmap = *it->second;
  for (CUarray level : mipmap.levels) {
    driver.memory().arrays.erase(reinterpret_cast<Array*>(level));
  }
  give_memory(device_memory(driver, mipmap.device).arena, mipmap.address, mipmap.bytes,
              mipmap.charged, Arena::Family::kTiled);
  mipmaps.erase(it);
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
