// safetensors_probe write FILE: writes the tensors that test_safetensors.py expects.
// safetensors_probe copy FROM TO: reads FROM with our reader and writes all of it to TO.
#include <cstdio>
#include <string>

#include "checkpoint/safetensors.h"

namespace leeway {
namespace {

// i / 4 - 2 is exact in every floating type here; integers count from 0.
at::Tensor ramp(at::ScalarType dtype) {
  const at::Tensor steps = at::arange(24, at::kDouble).reshape({2, 3, 4});
  return (at::isFloatingType(dtype) ? steps / 4 - 2 : steps).to(dtype);
}

Status write_known(const Path& path) {
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"maker", "leeway"}};
  for (const auto dtype :
       {at::kByte, at::kHalf, at::kDouble, at::kBFloat16, at::kFloat, at::kLong, at::kInt}) {
    file.tensors.push_back({std::string("ramp.") + c10::toString(dtype), ramp(dtype)});
  }
  file.tensors.push_back({"transposed", ramp(at::kFloat).select(0, 1).t()});
  file.tensors.push_back({"scalar", at::scalar_tensor(0.5)});
  file.tensors.push_back({"empty", at::empty({0, 3})});
  file.tensors.push_back({"three bytes", at::arange(3, at::kByte)});
  return write_safetensors(path, file);
}

Status copy(const Path& from, const Path& to) {
  LEEWAY_ASSIGN(const TensorFile file, read_safetensors(from));
  return write_safetensors(to, file);
}

}  // namespace
}  // namespace leeway

int main(int count, char** arguments) {
  const std::string verb = count > 1 ? arguments[1] : "";
  leeway::Status status = leeway::usage_error("usage: write FILE, or copy FROM TO");
  if (verb == "write" && count == 3) status = leeway::write_known(arguments[2]);
  if (verb == "copy" && count == 4) status = leeway::copy(arguments[2], arguments[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
