#include "text/grammar/schema_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/hex.h"

namespace helix::text::grammar {
namespace {

using ReferenceJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kAnnotations = {
    "title", "description", "default", "examples", "$schema", "$id", "$comment"};

void find_anchors(const ReferenceJson& s, std::map<std::string, const ReferenceJson*>& out) {
    if (s.is_object()) {
        for (const char* keyword : {"$anchor", "$id", "id"}) {
            const auto it = s.find(keyword);
            if (it == s.end() || !it->is_string()) continue;
            const auto& name = it->get_ref<const std::string&>();
            out.emplace(std::string_view(keyword) == "$anchor" ? "#" + name : name, &s);
        }
    }
    if (!s.is_structured()) return;
    for (const ReferenceJson& value : s) find_anchors(value, out);
}

std::string without_percents(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                             base::hex_digit(text[i + 1]) >= 0 && base::hex_digit(text[i + 2]) >= 0;
        if (escaped) {
            out +=
                static_cast<char>(base::hex_digit(text[i + 1]) * 16 + base::hex_digit(text[i + 2]));
            i += 2;
        } else {
            out += text[i];
        }
    }
    return out;
}

}  // namespace

bool is_schema_annotation(std::string_view keyword) {
    return std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}

base::Result<const ReferenceJson*> SchemaReferences::resolve(const ReferenceJson& reference) {
    if (!reference.is_string()) return base::invalid("expected a string");
    auto name = reference.get<std::string>();
    if (!anchors_known_) find_anchors(document_, anchors_);
    anchors_known_ = true;
    const auto anchor = anchors_.find(name);
    if (anchor != anchors_.end()) return anchor->second;
    for (const char* keyword : {"$id", "id"}) {  // the document's own name
        if (!document_.contains(keyword) || !document_[keyword].is_string()) continue;
        auto own = document_[keyword].get<std::string>();
        if (own.ends_with('#')) own.pop_back();
        if (!own.empty() && name.starts_with(own + "#")) name = name.substr(own.size());
    }
    if (!name.starts_with('#')) {
        return base::invalid(
            fmt::format("\"{}\" is outside of this schema; only references that begin with # are "
                        "supported",
                        name));
    }
    try {
        return &document_.at(ReferenceJson::json_pointer(without_percents(name.substr(1))));
    } catch (const ReferenceJson::exception&) {
        return base::invalid(fmt::format("there is no \"{}\" in the schema", name));
    }
}

}  // namespace helix::text::grammar
