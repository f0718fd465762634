// Converts between enums and their words in a recipe. Words are in the order of the enumerators.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "config/recipe.h"

namespace leeway {

template <class Enum>
inline constexpr std::array<std::string_view, 0> kWords = {};

template <>
inline constexpr std::array<std::string_view, 3> kWords<Precision> = {"fp32", "bf16", "fp64"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<LogLevel> = {"auto", "all", "updates"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Architecture> = {"llama", "gpt2"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Activation> = {"swiglu", "gelu", "relu"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<UpdateRule> = {"muon", "adamw", "nadamw",
                                                                       "sgd"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<MomentType> = {"f32", "bf16"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<SecondMoment> = {"own", "mean"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<StageClip> = {"share", "whole"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<RateSchedule> = {"cosine", "linear",
                                                                         "constant", "wsd"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<DriverName> = {"threads", "sim", "zmq",
                                                                       "mpi"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<PipelineSchedule> = {"async", "1f1b",
                                                                             "gpipe"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<StashPlace> = {"device", "host"};
template <>
inline constexpr std::array<std::string_view, 5> kWords<Lookahead> = {
    "tentative", "matched", "predict", "nesterov", "none"};
template <>
inline constexpr std::array<std::string_view, 6> kWords<AveragingMethod> = {
    "sparse", "lowbit", "allreduce", "weights", "diloco", "none"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Correction> = {"none", "delta", "ema"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<MergePolicy> = {"on_arrival", "fixed_lag"};
template <>
inline constexpr std::array<std::string_view, 6> kWords<WireFormat> = {
    "f32", "bf16", "int8", "int8_stochastic", "int4", "ternary"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<PipelineWire> = {"f32", "bf16", "int8",
                                                                         "int4"};

template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return kWords<Enum>[static_cast<size_t>(value)];
}

template <class Enum>
constexpr std::optional<Enum> enum_of(std::string_view word) {
  for (size_t index = 0; index < kWords<Enum>.size(); ++index) {
    if (kWords<Enum>[index] == word) return static_cast<Enum>(index);
  }
  return std::nullopt;
}

}  // namespace leeway
