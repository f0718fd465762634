#undef _FORTIFY_SOURCE  // with it, longjmp refuses to go to another stack

#include "grid.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/mix.h"

namespace leeway::emulation {
namespace {

constexpr unsigned kThreadsMost = 1024;
constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kGuardBytes = 64;
constexpr std::byte kUnwritten{0xff};  // NaN, if it is read as a number

enum class State { kReady, kAtBarrier, kAtExchange, kDone };

// A thread of the block. The same fiber is one in the next block.
struct Fiber {
  dim3 index;
  State state = State::kDone;
  Place place;  // where it waits
  bool counts = false;
  unsigned mask = 0;
  std::unique_ptr<std::byte[]> stack;
  ucontext_t entry;
  sigjmp_buf left;
};

// Words move from `said` to `heard` when all have come: nobody can overwrite what is still read.
struct Warp {
  Words said;
  Words heard;
};

std::string name_of(const Place& place) {
  const std::string path = place.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), place.line());
}

bool are_same(const Place& one, const Place& other) {
  return one.line() == other.line() && std::strcmp(one.file_name(), other.file_name()) == 0;
}

// Another order every time, but the same ones in every run of the program.
void shuffle(std::vector<unsigned>& order) {
  static uint64_t shuffles = 0;
  uint64_t bits = ++shuffles * kGoldenBits;
  for (size_t left = order.size(); left > 1; --left) {
    bits = mix(bits + kGoldenBits);
    std::swap(order[left - 1], order[bits % left]);
  }
}

std::vector<unsigned> numbers_below(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

class Block {
 public:
  void begin(const Launch& launch, const std::function<void()>& kernel);
  void run(const dim3& index);

  void leave(State state, const Place& place);
  Fiber& own() { return fibers_[running_]; }
  unsigned lane() const { return running_ % kLanes; }
  Warp& warp() { return warps_[running_ / kLanes]; }
  int counted() const { return counted_; }
  void* shared() { return shared_.data(); }

 private:
  static void enter();
  void start(Fiber& fiber);
  void resume(unsigned thread);
  void run_warp(unsigned warp);
  bool release_lanes(unsigned warp);
  bool have_come(unsigned warp, const Fiber& first);
  bool release_block();
  void check_shared() const;

  std::array<Fiber, kThreadsMost> fibers_;
  std::array<Warp, kThreadsMost / kLanes> warps_;
  std::vector<std::byte> shared_;
  std::vector<unsigned> warp_order_;
  std::vector<unsigned> lane_order_ = numbers_below(kLanes);
  const std::function<void()>* kernel_ = nullptr;
  sigjmp_buf scheduler_;
  unsigned threads_ = 0;
  unsigned running_ = 0;
  int counted_ = 0;
};

Block& block() {
  static Block only;
  return only;
}

void Block::enter() {
  for (;;) {
    (*block().kernel_)();
    block().leave(State::kDone, Place::current());
  }
}

void Block::start(Fiber& fiber) {
  fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  getcontext(&fiber.entry);
  fiber.entry.uc_stack.ss_sp = fiber.stack.get();
  fiber.entry.uc_stack.ss_size = kStackBytes;
  fiber.entry.uc_link = nullptr;
  makecontext(&fiber.entry, &Block::enter, 0);
  setcontext(&fiber.entry);
}

void Block::begin(const Launch& launch, const std::function<void()>& kernel) {
  const dim3& size = launch.threads;
  threads_ = size.x * size.y * size.z;
  if (threads_ == 0 || threads_ > kThreadsMost) fail("a block has 1 to 1024 threads");
  for (unsigned thread = 0; thread < threads_; ++thread) {
    fibers_[thread].index = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
  }
  kernel_ = &kernel;
  warp_order_ = numbers_below((threads_ + kLanes - 1) / kLanes);
  shared_.resize(launch.shared_bytes + kGuardBytes);
}

void Block::run(const dim3& index) {
  blockIdx = index;
  std::fill(shared_.begin(), shared_.end(), kUnwritten);
  for (unsigned thread = 0; thread < threads_; ++thread) fibers_[thread].state = State::kReady;
  do {
    shuffle(warp_order_);
    for (const unsigned warp : warp_order_) run_warp(warp);
  } while (release_block());
  check_shared();
}

// The jumps save no signal mask: a change of context would cost a system call.
void Block::resume(unsigned thread) {
  running_ = thread;
  threadIdx = own().index;
  if (sigsetjmp(scheduler_, 0) != 0) return;
  if (own().stack == nullptr) start(own());
  siglongjmp(own().left, 1);
}

void Block::leave(State state, const Place& place) {
  own().state = state;
  own().place = place;
  if (sigsetjmp(own().left, 0) == 0) siglongjmp(scheduler_, 1);
}

// Until all of its lanes have ended or wait for the block.
void Block::run_warp(unsigned warp) {
  do {
    shuffle(lane_order_);
    for (const unsigned lane : lane_order_) {
      const unsigned thread = warp * kLanes + lane;
      if (thread < threads_ && fibers_[thread].state == State::kReady) resume(thread);
    }
  } while (release_lanes(warp));
}

// Whether all lanes that `first` waits for are where it is.
bool Block::have_come(unsigned warp, const Fiber& first) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((first.mask >> lane & 1U) == 0) continue;
    const unsigned thread = warp * kLanes + lane;
    if (thread >= threads_) return false;
    const Fiber& fiber = fibers_[thread];
    if (fiber.state != State::kAtExchange || fiber.mask != first.mask) return false;
    if (!are_same(fiber.place, first.place)) return false;
  }
  return true;
}

// None of the warp's lanes can run. Lets those go on that wait for each other; false: there are
// none.
bool Block::release_lanes(unsigned warp) {
  const Fiber* waiting = nullptr;
  bool released = false;
  for (unsigned lane = 0; lane < kLanes && warp * kLanes + lane < threads_; ++lane) {
    const Fiber& first = fibers_[warp * kLanes + lane];
    if (first.state != State::kAtExchange) continue;
    waiting = &first;
    if (!have_come(warp, first)) continue;
    released = true;
    for (unsigned other = 0; other < kLanes; ++other) {
      if ((first.mask >> other & 1U) == 0) continue;
      warps_[warp].heard[other] = warps_[warp].said[other];
      fibers_[warp * kLanes + other].state = State::kReady;
    }
  }
  if (waiting != nullptr && !released) {
    fail(fmt::format("not all lanes of the mask {:#x} come to {}", waiting->mask,
                     name_of(waiting->place)));
  }
  return released;
}

// All threads have ended or wait for the block; false: all have ended.
bool Block::release_block() {
  const Fiber* first = nullptr;
  counted_ = 0;
  for (unsigned thread = 0; thread < threads_; ++thread) {
    Fiber& fiber = fibers_[thread];
    if (fiber.state == State::kDone) continue;
    if (first == nullptr) first = &fiber;
    if (!are_same(fiber.place, first->place)) {
      fail(fmt::format("threads of a block wait at different barriers: {} and {}",
                       name_of(first->place), name_of(fiber.place)));
    }
    counted_ += fiber.counts ? 1 : 0;
    fiber.state = State::kReady;
  }
  return first != nullptr;
}

void Block::check_shared() const {
  const auto is_written = [](std::byte byte) { return byte != kUnwritten; };
  if (std::any_of(shared_.end() - kGuardBytes, shared_.end(), is_written)) {
    fail("a block has written past the end of its dynamic shared memory");
  }
}

}  // namespace

void run_grid(const Launch& launch, const std::function<void()>& kernel) {
  gridDim = launch.blocks;
  blockDim = launch.threads;
  if (gridDim.x * gridDim.y * gridDim.z == 0) fail("a grid has at least one block");
  block().begin(launch, kernel);
  std::vector<unsigned> order = numbers_below(gridDim.x * gridDim.y * gridDim.z);
  shuffle(order);
  for (const unsigned i : order) {
    block().run({i % gridDim.x, i / gridDim.x % gridDim.y, i / gridDim.x / gridDim.y});
  }
}

int wait_for_block(bool counts, const Place& place) {
  block().own().counts = counts;
  block().leave(State::kAtBarrier, place);
  return block().counted();
}

const Words& wait_for_lanes(unsigned mask, uint64_t said, const Place& place) {
  if ((mask >> lane() & 1U) == 0) {
    fail(fmt::format("a lane that the mask {:#x} leaves out comes to {}", mask, name_of(place)));
  }
  block().own().mask = mask;
  block().warp().said[lane()] = said;
  block().leave(State::kAtExchange, place);
  return block().warp().heard;
}

unsigned lane() { return block().lane(); }

void* dynamic_shared() { return block().shared(); }

void fail(const std::string& sentence) {
  std::fputs(("emulated kernel: " + sentence + "\n").c_str(), stderr);
  std::abort();
}

}  // namespace leeway::emulation
