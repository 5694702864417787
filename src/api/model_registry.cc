#include "api/model_registry.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace helix::api {

bool ModelEntry::serves(std::string_view name) const {
    return name == info.name ||
           std::find(info.aliases.begin(), info.aliases.end(), name) != info.aliases.end();
}

void ModelRegistry::add(ModelEntry entry) {
    CHECK(entry.codec != nullptr && entry.service != nullptr);
    CHECK(!entry.info.name.empty() && entry.info.context_length > 0);
    for (const ModelEntry& other : entries_) {
        CHECK(!other.serves(entry.info.name));
        for (const std::string& alias : entry.info.aliases) CHECK(!other.serves(alias));
    }
    entries_.push_back(std::move(entry));
}

const ModelEntry* ModelRegistry::find(std::string_view name) const {
    for (const ModelEntry& entry : entries_) {
        if (name.empty() || entry.serves(name)) return &entry;
    }
    return nullptr;
}

}  // namespace helix::api
