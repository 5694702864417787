#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Importance matrices: how much the columns of weight matrices matter, by what the rows that they
// were multiplied by had there in some text. Stored as llama.cpp stores them: a GGUF file with
// tensors NAME.in_sum2 and NAME.counts. The format that it had before is read, too.

namespace helix::model {

// Of the matrices of one tensor, which are several where it holds experts.
struct InputSquares {
    std::vector<float> sums;  // [matrices, columns], of squares of the rows' elements
    // [matrices], of rows; or one number that stands for every matrix' (files of the old format).
    std::vector<float> counts;
};

struct ImportanceMatrix {
    std::map<std::string, InputSquares, std::less<>> tensors;
    std::vector<std::string> datasets;  // what the text is called
    std::int64_t chunks = 0;            // that the text was cut into
    std::int64_t chunk_tokens = 0;      // 0: the file does not say
};

// [matrices, columns]: the mean squares of the columns, over their mean, as weights of errors. A
// matrix that few rows came to, as with experts that the text hardly asked, takes the means of all
// of the tensor's, as if eight more rows had had these; a thousandth is added to all, since a
// column that the text left at zero is not one that nothing ever comes to. invalid: these are not
// the squares of such matrices.
base::Result<std::vector<float>> error_weights(const InputSquares& squares, std::int64_t matrices,
                                               std::int64_t columns);

// Errors name the path and the tensor.
base::Result<ImportanceMatrix> read_importance(const std::string& path);
// Takes the place of a file that is there.
base::Status write_importance(const std::string& path, const ImportanceMatrix& importance);

}  // namespace helix::model
