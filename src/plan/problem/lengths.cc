#include "plan/problem/lengths.h"

#include "spec/csv_table.h"

namespace helix::plan {

LengthMoments fixed_lengths(double prompt, double output) {
    return {.prompt = prompt,
            .output = output,
            .prompt_prompt = prompt * prompt,
            .prompt_output = prompt * output};
}

base::Result<LengthMoments> read_lengths(const std::string& path) {
    TRY(const spec::CsvTable table, spec::CsvTable::read(path, {"prompt_tokens", "output_tokens"}));
    if (table.n_rows() == 0) return base::invalid(path + ": expected at least one request");
    LengthMoments sum = fixed_lengths(0, 0);
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        TRY(const double prompt, table.number(row, 0));
        TRY(const double output, table.number(row, 1));
        if (prompt < 1 || output < 1) {
            return base::invalid(path + ": every length must be at least 1 token");
        }
        sum.prompt += prompt;
        sum.output += output;
        sum.prompt_prompt += prompt * prompt;
        sum.prompt_output += prompt * output;
    }
    const auto n = static_cast<double>(table.n_rows());
    return LengthMoments{.prompt = sum.prompt / n,
                         .output = sum.output / n,
                         .prompt_prompt = sum.prompt_prompt / n,
                         .prompt_output = sum.prompt_output / n};
}

}  // namespace helix::plan
