#include "core/coordinator/outbox.h"

namespace helix::core {

void Outbox::end() {
    for (auto& [worker, inputs] : rows_) {
        if (!inputs.inputs.empty()) push(SendToWorker{worker, std::move(inputs)});
    }
    rows_.clear();
    actions_ = nullptr;
}

ScoreTokens& Outbox::scores_of(RequestId id) {
    CHECK(actions_ != nullptr);
    auto* last = actions_->empty() ? nullptr : std::get_if<ScoreTokens>(&actions_->back());
    if (last != nullptr && last->id == id) return *last;
    return std::get<ScoreTokens>(actions_->emplace_back(ScoreTokens{id, {}}));
}

StageInput& Outbox::add_rows(WorkerId first_stage, StageInput rows) {
    std::vector<StageInput>& box = rows_[first_stage].inputs;
    box.push_back(std::move(rows));
    return box.back();
}

}  // namespace helix::core
