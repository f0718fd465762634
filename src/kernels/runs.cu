#include <stdexcept>

#include "kernels/cuda_device.h"
#include "kernels/runs_cuda.h"

namespace leeway {
namespace {

using cuda::Tile;

template <bool kGathers, int kWidth, class Element>
__global__ void __launch_bounds__(cuda::kThreads)
    copy_runs(const Subset subset, int64_t count, Element* __restrict__ flat,
              Element* __restrict__ compact) {
  constexpr int kVectors = Tile<kWidth>::kVectors;
  for (int64_t t = blockIdx.x; t * Tile<kWidth>::kPositions < count; t += gridDim.x) {
    const Tile<kWidth> tile(subset, t);
    cuda::Vector<Element, kWidth> held[kVectors];
    int64_t offsets[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = (k * cuda::kThreads + static_cast<int>(threadIdx.x)) * kWidth;
      const int some = cuda::some_of<kWidth>(tile.first + i, count);
      offsets[k] = some == 0 ? 0 : tile.offset(i);
      const Element* const from = kGathers ? flat + offsets[k] : compact + tile.first + i;
      held[k] = cuda::load<kWidth>(from, some);
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = (k * cuda::kThreads + static_cast<int>(threadIdx.x)) * kWidth;
      const int some = cuda::some_of<kWidth>(tile.first + i, count);
      Element* const to = kGathers ? compact + tile.first + i : flat + offsets[k];
      cuda::store(held[k], some, to);
    }
  }
}

template <bool kGathers, int kWidth, class Element>
void launch_copy(const Subset& subset, const CopiedRuns& copied) {
  const int64_t count = subset.count();
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(cuda::blocks_for(cuda::tiles_of<kWidth>(count)));
  cuda::launch(copy_runs<kGathers, kWidth, Element>, {blocks, cuda::kThreads, copied.stream},
               subset, count, static_cast<Element*>(copied.flat),
               static_cast<Element*>(copied.compact));
}

// A vector lies in one run if runs are whole vectors, which then begin at multiples of one.
template <bool kGathers, class Element>
void launch_widest(const Subset& subset, const CopiedRuns& copied) {
  constexpr int kMost = 16 / sizeof(Element);
  const bool whole = subset.granularity() % kMost == 0 && cuda::is_aligned(copied.flat, 16) &&
                     cuda::is_aligned(copied.compact, 16);
  if (whole) return launch_copy<kGathers, kMost, Element>(subset, copied);
  launch_copy<kGathers, 1, Element>(subset, copied);
}

template <bool kGathers>
void launch_of_size(const Subset& subset, const CopiedRuns& copied) {
  if (copied.element_bytes == 2) return launch_widest<kGathers, uint16_t>(subset, copied);
  if (copied.element_bytes == 4) return launch_widest<kGathers, uint32_t>(subset, copied);
  if (copied.element_bytes == 8) return launch_widest<kGathers, uint64_t>(subset, copied);
  throw std::runtime_error("elements have 2, 4 or 8 bytes");
}

}  // namespace

void gather_cuda(const Subset& subset, const CopiedRuns& copied) {
  launch_of_size<true>(subset, copied);
}

void scatter_cuda(const Subset& subset, const CopiedRuns& copied) {
  launch_of_size<false>(subset, copied);
}

}  // namespace leeway
