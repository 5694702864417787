#include "node/kept_model.h"

#include <utility>

#include "wire/codec.h"

namespace helix::node {

void KeptModel::begin(const wire::Welcome& welcome) {
    fetcher.begin(welcome.model_id);
    wire::Welcome same = welcome;  // without the fields that say nothing of the weights
    same.worker = {};
    same.model_id = {};
    same.model.context_length = 0;
    std::string of = wire::encode(same);
    if (of == of_) return;
    backend.reset();
    weights.reset();
    shared.clear();
    of_ = std::move(of);
}

void KeptModel::forget_backend() {
    backend.reset();
    offered_memory_bytes = 0;
}

void KeptModel::end() {
    if (backend != nullptr) backend->drop_kv();
}

}  // namespace helix::node
