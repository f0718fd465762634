// A slice's weights under the names and in the layout of Hugging Face's LlamaForCausalLM and
// GPT2LMHeadModel, and the config.json that goes with them: what AutoModelForCausalLM opens.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/shape.h"

namespace leeway {

// Views of `flat`, not copies. Hugging Face stores GPT-2's linear weights as [in, out], so those
// views are transposed. Its GPT-2 always has biases: a model without them gets zeros.
std::vector<std::pair<std::string, at::Tensor>> to_hugging_face(const ModelShape& shape,
                                                                const StageSlice& slice,
                                                                const at::Tensor& flat);

// The inverse: fills `flat`, bit for bit if the types are equal. `tensors` may contain more than
// this slice. The error names the tensor that is missing, has another shape, or is a bias that the
// model does not have; `flat` is then unchanged.
Status from_hugging_face(const ModelShape& shape, const StageSlice& slice,
                         const std::map<std::string, at::Tensor>& tensors, const at::Tensor& flat);

// The text of config.json. `dtype` is Hugging Face's name for it: float32, bfloat16.
std::string hugging_face_config(const ModelShape& shape, const std::string& dtype);

// The inverse. Rejects a model that Leeway would compute differently (another epsilon, scaled
// positions, tied embeddings); the error names the key.
Result<ModelShape> shape_from_hugging_face_config(const std::string& json);

}  // namespace leeway
