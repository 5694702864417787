#pragma once

#include <cstddef>
#include <span>

#include "model/tensor_type.h"

// Quantising with a search for the scales, where quantize_row() rounds plainly.

namespace helix::model::quant {

// Makes a block of the type's size of values and weights, one for each value.
using Search = void (*)(const float* values, const float* weights, std::byte* block);

// nullptr: the type has no search.
Search find_search(TensorType type);

// As quantize_row(), so that the sum of weight * (value - stored)^2 is little: of no block is it
// greater than quantize_row()'s. Returns the sum. The type has a search. Weights are numbers of at
// least 0; values are finite.
double search_row(TensorType type, std::span<const float> values, std::span<const float> weights,
                  std::byte* out);

// Of the types, in files of this folder.
void search_q8_0(const float* values, const float* weights, std::byte* block);
void search_q4_0(const float* values, const float* weights, std::byte* block);
void search_q4_1(const float* values, const float* weights, std::byte* block);
void search_q5_0(const float* values, const float* weights, std::byte* block);
void search_q5_1(const float* values, const float* weights, std::byte* block);
void search_iq4_nl(const float* values, const float* weights, std::byte* block);
void search_q2_k(const float* values, const float* weights, std::byte* block);
void search_q3_k(const float* values, const float* weights, std::byte* block);
void search_q4_k(const float* values, const float* weights, std::byte* block);
void search_q5_k(const float* values, const float* weights, std::byte* block);
void search_q6_k(const float* values, const float* weights, std::byte* block);
void search_iq4_xs(const float* values, const float* weights, std::byte* block);
void search_iq2_xxs(const float* values, const float* weights, std::byte* block);
void search_iq2_xs(const float* values, const float* weights, std::byte* block);
void search_iq2_s(const float* values, const float* weights, std::byte* block);
void search_iq3_xxs(const float* values, const float* weights, std::byte* block);
void search_iq3_s(const float* values, const float* weights, std::byte* block);

}  // namespace helix::model::quant
