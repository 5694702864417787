#include "api/batch_validator.h"

#include <fmt/format.h>

#include <algorithm>

namespace helix::api {
namespace {

constexpr std::int64_t kPartBytes = std::int64_t{1} << 20U;

bool is_blank(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
}

}  // namespace

base::Result<bool> BatchValidator::step(const store::JobStore& store) {
    const std::int64_t from = offset_ + static_cast<std::int64_t>(text_.size());
    if (from == 0) TRY_VOID(store.content_bytes(file_));  // fails if a part is missing
    TRY(const std::string part, store.read(file_, from, kPartBytes));
    text_ += part;
    take_lines();
    const bool last = static_cast<std::int64_t>(part.size()) < kPartBytes;
    if (!last && !enough()) return false;
    if (last) finish();
    return true;
}

void BatchValidator::take_lines() {
    std::size_t begin = 0;
    while (!enough()) {
        const std::size_t end = text_.find('\n', begin);
        if (end == std::string::npos) break;
        if (!skipping_) take_line(std::string_view(text_).substr(begin, end - begin));
        skipping_ = false;
        offset_ += static_cast<std::int64_t>(end + 1 - begin);
        begin = end + 1;
    }
    text_.erase(0, begin);
    if (text_.size() <= limits_.max_line_bytes) return;
    if (!skipping_) take_line(text_);
    skipping_ = true;
    offset_ += static_cast<std::int64_t>(text_.size());
    text_.clear();
}

void BatchValidator::take_line(std::string_view text) {
    ++line_;
    if (is_blank(text)) return;
    if (text.size() > limits_.max_line_bytes) {
        return problem({"line_too_long",
                        fmt::format("This line is longer than {} bytes.", limits_.max_line_bytes),
                        "", 0});
    }
    LineHead request;
    if (auto found = read_head(text, endpoint_, request)) return problem(std::move(*found));
    if (!custom_ids_.insert(request.custom_id).second) {
        return problem(
            {"duplicate_custom_id",
             fmt::format("The custom_id '{}' was used by a line before.", request.custom_id),
             "custom_id", 0});
    }
    check_model(request.model);
    store::BatchLine& line = lines_.emplace_back();
    line.line = line_;
    line.custom_id = request.custom_id;
    line.offset = offset_;
    line.bytes = static_cast<std::int64_t>(text.size());
    if (static_cast<std::int64_t>(lines_.size()) == limits_.max_lines + 1) {
        problem({"too_many_requests",
                 fmt::format("The file has more than {} requests.", limits_.max_lines), "", 0});
    }
}

void BatchValidator::check_model(const std::string& model) {
    if (lines_.empty()) {
        model_ = model;
        if (model.empty() || serves_(model)) return;
        return problem({"model_not_found",
                        fmt::format("The model '{:.100}' does not exist.", model), "body.model",
                        0});
    }
    if (model == model_) return;
    problem({"mismatched_model",
             fmt::format(
                 "This line asks for the model '{:.100}', the first one for '{:.100}': a batch has "
                 "one model.",
                 model, model_),
             "body.model", 0});
}

void BatchValidator::problem(BatchProblem found) {
    found.line = line_;
    problems_.push_back(std::move(found));
}

void BatchValidator::finish() {
    if (!text_.empty() && !skipping_ && !enough()) take_line(text_);
    text_.clear();
    if (!lines_.empty() || !problems_.empty()) return;
    problems_.push_back({"empty_file", "The file has no requests.", "", 0});
}

}  // namespace helix::api
