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

// Views of `flat`, not copies: nothing is duplicated until somebody writes them. GPT-2's products
// are stored the other way round there ([in, out]), so those views are transposed. A GPT-2 without
// biases gets zeros for them, because Hugging Face's always has them.
std::vector<std::pair<std::string, at::Tensor>> to_hugging_face(const ModelShape& shape,
                                                                const StageSlice& slice,
                                                                const at::Tensor& flat);

// The inverse: writes `flat`, bit for bit where the types are equal. `tensors` may hold more than
// this slice. Names the tensor that is missing, has another shape, or is a bias that the model does
// not have; `flat` is then untouched.
Status from_hugging_face(const ModelShape& shape, const StageSlice& slice,
                         const std::map<std::string, at::Tensor>& tensors, const at::Tensor& flat);

// The text of config.json. `dtype` is Hugging Face's word: float32, bfloat16.
std::string hugging_face_config(const ModelShape& shape, const std::string& dtype);

// The inverse. A model that Leeway would compute differently (another epsilon, scaled positions,
// tied embeddings) is refused, with the key that says so.
Result<ModelShape> shape_from_hugging_face_config(const std::string& json);

}  // namespace leeway
