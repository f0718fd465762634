// Runs updates on values that a Python test wrote, and writes the weights after each:
//
//   optim_probe INPUT OUTPUT [INPUT OUTPUT]...
//
// All files are little-endian words of 8 bytes. INPUT: int64 rule, nesterov, bits (32 or 64),
// updates, parameters, then kind, rows and cols of each; fp64 rate, matrix_rate, beta1, beta2,
// epsilon, decay, clip; a rate factor per update; the weights; the gradients of each update.
// OUTPUT: fp64 weights after each update.
#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/clip.h"
#include "optim/optimizer.h"

namespace {

// Returns the words of the input one after the other.
class Words {
 public:
  explicit Words(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    LEEWAY_CHECK(!bytes_.empty(), "the input has words");
  }

  int64_t integer() { return next<int64_t>(); }
  double number() { return next<double>(); }

  at::Tensor numbers(int64_t count, at::ScalarType type) {
    const at::Tensor values = at::empty({count}, at::kDouble);
    for (int64_t i = 0; i < count; ++i) values.mutable_data_ptr<double>()[i] = number();
    return values.to(type);
  }

  bool done() const { return position_ == bytes_.size(); }

 private:
  template <class T>
  T next() {
    T value = {};
    LEEWAY_CHECK(position_ + sizeof value <= bytes_.size(), "the input ends too early");
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  std::vector<char> bytes_;
  size_t position_ = 0;
};

leeway::ParameterLayout read_layout(Words& words) {
  leeway::ParameterLayout layout(static_cast<size_t>(words.integer()));
  int64_t offset = 0;
  for (leeway::Parameter& parameter : layout) {
    parameter.kind = static_cast<leeway::ParameterKind>(words.integer());
    parameter.rows = words.integer();
    parameter.cols = words.integer();
    parameter.offset = offset;
    offset += parameter.count();
  }
  return layout;
}

void run(const std::string& input_path, const std::string& output_path) {
  Words words(input_path);
  leeway::UpdateOptions options;
  options.rule = static_cast<leeway::UpdateRule>(words.integer());
  options.nesterov = words.integer() != 0;
  const at::ScalarType type = words.integer() == 64 ? at::kDouble : at::kFloat;
  const int64_t updates = words.integer();
  const leeway::ParameterLayout layout = read_layout(words);
  for (double* value : {&options.rate, &options.matrix_rate, &options.beta1, &options.beta2,
                        &options.epsilon, &options.decay}) {
    *value = words.number();
  }
  const double clip = words.number();
  std::vector<double> factors(static_cast<size_t>(updates));
  for (double& factor : factors) factor = words.number();

  const int64_t count = leeway::parameter_count(layout);
  const at::Tensor weights = words.numbers(count, type);
  const at::Tensor compute = at::zeros_like(weights);
  leeway::Optimizer optimizer(options, layout, type);
  std::ofstream output(output_path, std::ios::binary);
  for (const double factor : factors) {
    const at::Tensor gradients = words.numbers(count, type);
    const double scale =
        leeway::clip_scale(gradients.to(at::kDouble).square().sum().item<double>(), clip);
    optimizer.update({.weights = weights,
                      .gradients = gradients,
                      .compute = compute,
                      .rate_factor = factor,
                      .gradient_scale = scale});
    LEEWAY_CHECK(at::equal(weights, compute), "the compute copy is the weights");
    const at::Tensor saved = weights.to(at::kDouble);
    output.write(static_cast<const char*>(saved.const_data_ptr()),
                 static_cast<std::streamsize>(saved.nbytes()));
  }
  LEEWAY_CHECK(words.done(), "the input has no words left over");
  LEEWAY_CHECK(output.good(), "the output is written");
}

}  // namespace

int main(int argc, char** argv) {
  LEEWAY_CHECK(argc % 2 == 1, "optim_probe INPUT OUTPUT [INPUT OUTPUT]...");
  // Many cases in one process: LibTorch takes a second to load.
  for (int i = 1; i < argc; i += 2) run(argv[i], argv[i + 1]);
  return 0;
}
