// Work that is done again and again on the same tensors. A GPU gets it as one piece, a CUDA graph:
// a hundred small kernels then cost the host one call. The CPU does it anew each time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace leeway {

// Returns its result, which may be undefined.
using GraphedWork = std::function<at::Tensor()>;

// Where graphs have what their work allocates. Graphs may share it if they run one after the other:
// what one leaves for the next is safe if tensors hold it while that one is made. Graphs in
// different memories run in any order.
class GraphMemory {
 public:
  explicit GraphMemory(const at::Device& device);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

 private:
  friend class GraphMaker;
  struct Pool;
  std::unique_ptr<Pool> pool_;  // null: the CPU's
};

class WorkGraph {
 public:
  WorkGraph();
  ~WorkGraph();
  WorkGraph(WorkGraph&&) noexcept;
  WorkGraph& operator=(WorkGraph&&) noexcept;

  bool is_made() const { return made_ != nullptr; }
  // On the current stream. On a GPU the result is where it always is: copy it before the next graph
  // in this memory runs.
  at::Tensor run() const;

 private:
  friend class GraphMaker;
  struct Made;
  std::unique_ptr<Made> made_;
};

// One for all graphs of a stage. Used by one thread.
class GraphMaker {
 public:
  explicit GraphMaker(const at::Device& device);
  ~GraphMaker();
  GraphMaker(const GraphMaker&) = delete;
  GraphMaker& operator=(const GraphMaker&) = delete;

  // Runs the work as it is, and waits for it: at the first call libraries prepare things that
  // cannot be part of a graph.
  void rehearse(GraphMemory& memory, const GraphedWork& work) const;
  // Does not run it. What the work uses and has not made itself must stay where it is, and the work
  // must not wait for the device.
  WorkGraph make(GraphMemory& memory, GraphedWork work) const;

 private:
  struct Place;
  std::unique_ptr<Place> place_;  // null: the CPU
};

}  // namespace leeway
