#include "kernels/graph.h"

#include <ATen/ATen.h>

#include <type_traits>
#include <utility>

#include "kernels/cuda_glue.h"

#if LEEWAY_CUDA_GRAPHS
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>

#include <map>
#include <mutex>
#include <vector>
#endif

namespace leeway {

#if LEEWAY_CUDA_GRAPHS
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct Destroy {
  void operator()(cudaGraph_t graph) const { C10_CUDA_IGNORE_ERROR(cudaGraphDestroy(graph)); }
  void operator()(cudaGraphExec_t exec) const { C10_CUDA_IGNORE_ERROR(cudaGraphExecDestroy(exec)); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// Streams are kept for the graph makers to come: cuBLAS has memory for each that it has ever seen.
class SpareStreams {
 public:
  cudaStream_t take(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    std::vector<cudaStream_t>& spare = streams_[device];
    if (spare.empty()) {
      cudaStream_t stream = nullptr;
      C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      return stream;
    }
    const cudaStream_t stream = spare.back();
    spare.pop_back();
    return stream;
  }
  void give_back(c10::DeviceIndex device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    streams_[device].push_back(stream);
  }

  static SpareStreams& all() {
    static auto* const streams = new SpareStreams;  // CUDA may be gone before destructors run
    return *streams;
  }

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::vector<cudaStream_t>> streams_;
};

// While it lives, what this stream allocates comes from the pool.
class AllocatesTo {
 public:
  AllocatesTo(at::cuda::MemPool& pool, cudaStream_t stream) : pool_(pool) {
    allocator::beginAllocateToPool(pool_.device(), pool_.id(),
                                   [stream](cudaStream_t other) { return other == stream; });
  }
  ~AllocatesTo() {
    allocator::endAllocateToPool(pool_.device(), pool_.id());
    allocator::releasePool(pool_.device(), pool_.id());  // beginning has counted one more user
  }
  AllocatesTo(const AllocatesTo&) = delete;
  AllocatesTo& operator=(const AllocatesTo&) = delete;

 private:
  at::cuda::MemPool& pool_;
};

// What is given to the stream becomes a graph. A capture that is not ended would go on for ever.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Other threads may do anything but wait for the whole device; and the work was rehearsed.
    C10_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  }
  ~Capture() {  // only where the work has thrown is there anything left to end
    cudaGraph_t graph = nullptr;
    if (!ended_) C10_CUDA_IGNORE_ERROR(cudaStreamEndCapture(stream_, &graph));
    if (graph != nullptr) C10_CUDA_IGNORE_ERROR(cudaGraphDestroy(graph));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Owned<cudaGraph_t> end() {
    cudaGraph_t graph = nullptr;
    ended_ = true;
    C10_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
    return Owned<cudaGraph_t>(graph);
  }

 private:
  cudaStream_t stream_;
  bool ended_ = false;
};

// The same place without owning it, so that other graphs may use it too.
at::Tensor borrowed(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return at::from_blob(
      tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(),
      /*deleter=*/[](void*) {}, tensor.options(), tensor.device());
}

}  // namespace

struct GraphMemory::Pool {
  at::cuda::MemPool memory;
};

struct WorkGraph::Made {
  GraphedWork work;  // the CPU's
  Owned<cudaGraphExec_t> graph;
  c10::DeviceIndex device = 0;
  at::Tensor result;
};

// Graphs are made on a stream of their own, which only rehearsals use. A worker's stream may be
// another worker's too, if there are more workers than LibTorch has streams.
struct GraphMaker::Place {
  explicit Place(const at::Device& on)
      : device(on), stream(SpareStreams::all().take(device.index())) {}
  ~Place() { SpareStreams::all().give_back(device.index(), stream); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  c10::cuda::CUDAStream torch_stream() const {
    return c10::cuda::getStreamFromExternal(stream, device.index());
  }

  at::Device device;
  cudaStream_t stream;
};
#else
struct GraphMemory::Pool {};
struct WorkGraph::Made {
  GraphedWork work;
};
struct GraphMaker::Place {};
#endif

GraphMemory::GraphMemory(const at::Device& device) {
  if (device.is_cpu()) return;
#if LEEWAY_CUDA_GRAPHS
  const c10::cuda::CUDAGuard guard(device);
  pool_ = std::make_unique<Pool>();
#endif
}
GraphMemory::~GraphMemory() = default;

WorkGraph::WorkGraph() = default;
WorkGraph::~WorkGraph() = default;
WorkGraph::WorkGraph(WorkGraph&&) noexcept = default;
WorkGraph& WorkGraph::operator=(WorkGraph&&) noexcept = default;

at::Tensor WorkGraph::run() const {
  LEEWAY_CHECK(is_made(), "a graph is made before it runs");
  if (made_->work) return made_->work();
#if LEEWAY_CUDA_GRAPHS
  C10_CUDA_CHECK(
      cudaGraphLaunch(made_->graph.get(), c10::cuda::getCurrentCUDAStream(made_->device).stream()));
  return made_->result;
#else
  LEEWAY_UNREACHABLE(kNoCuda);
#endif
}

GraphMaker::GraphMaker(const at::Device& device) {
  if (device.is_cpu()) return;
#if LEEWAY_CUDA_GRAPHS
  const c10::cuda::CUDAGuard guard(device);
  place_ = std::make_unique<Place>(guard.current_device());
#else
  LEEWAY_UNREACHABLE(kNoCuda);
#endif
}
GraphMaker::~GraphMaker() = default;

void GraphMaker::rehearse([[maybe_unused]] GraphMemory& memory, const GraphedWork& work) const {
  if (!place_) {
    work();
    return;
  }
#if LEEWAY_CUDA_GRAPHS
  // What the work reads may still be on its way.
  c10::cuda::getCurrentCUDAStream(place_->device.index()).synchronize();
  const c10::cuda::CUDAStreamGuard here(place_->torch_stream());
  at::cuda::getCurrentCUDABlasHandle();  // its own memory is not the pool's
  const AllocatesTo pool(memory.pool_->memory, place_->stream);
  work();
  C10_CUDA_CHECK(cudaStreamSynchronize(place_->stream));
#endif
}

WorkGraph GraphMaker::make([[maybe_unused]] GraphMemory& memory, GraphedWork work) const {
  WorkGraph graph;
  graph.made_ = std::make_unique<WorkGraph::Made>();
  if (!place_) {
    graph.made_->work = std::move(work);
    return graph;
  }
#if LEEWAY_CUDA_GRAPHS
  const c10::cuda::CUDAStreamGuard here(place_->torch_stream());
  const AllocatesTo pool(memory.pool_->memory, place_->stream);
  Capture capture(place_->stream);
  graph.made_->result = borrowed(work());
  const Owned<cudaGraph_t> captured = capture.end();
  cudaGraphExec_t made = nullptr;
  C10_CUDA_CHECK(cudaGraphInstantiate(&made, captured.get(), /*flags=*/0));
  graph.made_->graph.reset(made);
  graph.made_->device = place_->device.index();
#endif
  return graph;
}

}  // namespace leeway
