#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

// The two small vocabularies of tests/golden (tools/tokenizer_vectors.py trains them on our own
// text).

namespace helix::text::testing_support {

using nlohmann::json;

// Discarded (not an array) when there is no such file.
inline json load_golden(const std::string& name) {
    std::ifstream in(std::string(HELIX_SOURCE_DIR) + "/tests/golden/" + name);
    return json::parse(in, nullptr, false);
}

// Takes over the keys that from has; a later suite of a file leaves out what stays the same.
inline void update(Vocabulary& v, const json& from) {
    const auto set_id = [&from](const char* key, std::optional<Token>& id) {
        if (from.contains(key)) id = from.at(key).get<Token>();
    };
    v.model = from.value("model", v.model);
    v.pre = from.value("pre", v.pre);
    if (from.contains("tokens")) v.tokens = from.at("tokens").get<std::vector<std::string>>();
    if (from.contains("scores")) v.scores = from.at("scores").get<std::vector<float>>();
    if (from.contains("merges")) v.merges = from.at("merges").get<std::vector<std::string>>();
    if (from.contains("types")) {
        v.kinds.clear();
        for (const json& type : from.at("types"))
            v.kinds.push_back(TokenKind{type.get<std::uint8_t>()});
    }
    set_id("bos", v.bos);
    set_id("eos", v.eos);
    set_id("unknown", v.unknown);
}

inline Vocabulary golden_vocabulary(const std::string& name) {
    Vocabulary vocabulary;
    update(vocabulary, load_golden(name).at(0).at("vocabulary"));
    return vocabulary;
}
inline Vocabulary spm_vocabulary() {
    return golden_vocabulary("tokenizer_spm.json");
}
// Pre-tokenizer "default".
inline Vocabulary byte_vocabulary() {
    return golden_vocabulary("tokenizer_byte_bpe.json");
}

inline std::shared_ptr<const Tokenizer> make_tokenizer(Vocabulary vocabulary) {
    auto made = Tokenizer::create(std::move(vocabulary));
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made.ok() ? *made : nullptr;
}

inline Token id_of(const Tokenizer& tokenizer, const std::string& text) {
    for (Token i = 0; i < tokenizer.vocab_size(); ++i) {
        if (tokenizer.vocabulary().tokens[static_cast<std::size_t>(i)] == text) return i;
    }
    ADD_FAILURE() << "no token " << text;
    return -1;
}

inline std::string joined_bytes(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
    std::string out;
    for (const Token token : tokens) out += tokenizer.token_bytes(token);
    return out;
}

}  // namespace helix::text::testing_support
