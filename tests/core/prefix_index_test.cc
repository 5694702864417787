#include "core/coordinator/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "core/kv/block_hash.h"

namespace helix::core::prefix_index_test {
namespace {

std::vector<base::Hash128> hashes_of(const std::vector<Token>& tokens, std::int32_t block_size) {
    std::vector<base::Hash128> hashes;
    extend_block_hashes(tokens, block_size, hashes);
    return hashes;
}

TEST(BlockHashes, CoverEveryFullBlockAndAllBeforeIt) {
    const auto hashes = hashes_of({1, 2, 3, 4, 5, 6, 7}, 2);
    ASSERT_EQ(hashes.size(), 3U) << "the last token fills no block";
    EXPECT_EQ(hashes_of({1, 2, 3, 4}, 2), std::vector(hashes.begin(), hashes.begin() + 2));
    EXPECT_NE(hashes_of({9, 2, 3, 4}, 2)[1], hashes[1]) << "an equal block after another one";
    EXPECT_NE(hashes_of({3, 4}, 2)[0], hashes[1]) << "an equal block elsewhere";
}

TEST(BlockHashes, GrowAsTheTextDoes) {
    const std::vector<Token> text = {5, 4, 3, 2, 1, 0, 7, 8, 9};
    std::vector<base::Hash128> grown;
    for (std::size_t n = 0; n <= text.size(); ++n) {
        extend_block_hashes(std::span(text).first(n), 3, grown);
        EXPECT_EQ(grown.size(), n / 3);
    }
    EXPECT_EQ(grown, hashes_of(text, 3));
}

TEST(PrefixIndex, ATextIsKnownByAsManyBlocksAsAPathHasFromTheFirstOn) {
    PrefixIndex index(100);
    index.record(hashes_of({1, 2, 3, 4, 5, 6}, 2), {0, 1});
    index.record(hashes_of({1, 2, 3, 4, 8, 8}, 2), {2, 3});
    const auto hits = index.find(hashes_of({1, 2, 3, 4, 5, 6, 7, 8}, 2));
    ASSERT_EQ(hits.size(), 2U);
    EXPECT_EQ(hits[0].path, (Path{0, 1}));
    EXPECT_EQ(hits[0].blocks, 3);
    EXPECT_EQ(hits[1].path, (Path{2, 3}));
    EXPECT_EQ(hits[1].blocks, 2);
    EXPECT_TRUE(index.find(hashes_of({2, 2}, 2)).empty());
}

TEST(PrefixIndex, WhatIsForgottenOnOnePathStaysKnownOnTheOthers) {
    PrefixIndex index(100);
    const auto blocks = hashes_of({1, 2, 3, 4}, 2);
    index.record(blocks, {0, 1});
    index.record(blocks, {2, 3});
    index.forget(blocks, {2, 3});
    const auto hits = index.find(blocks);
    ASSERT_EQ(hits.size(), 1U);
    EXPECT_EQ(hits[0].path, (Path{0, 1}));
    index.forget(blocks, {0, 1});
    EXPECT_TRUE(index.find(blocks).empty());
    EXPECT_EQ(index.size(), 0U);
}

TEST(PrefixIndex, WhenItIsFullTheEndOfTheOldestTextGoesFirst) {
    PrefixIndex index(5);
    const auto old = hashes_of({1, 2, 3}, 1);
    index.record(old, {0, 1});
    index.record(hashes_of({4, 5}, 1), {0, 1});
    index.record(hashes_of({6, 7}, 1), {0, 1});
    EXPECT_EQ(index.size(), 5U);
    EXPECT_EQ(index.find(old)[0].blocks, 1);
    EXPECT_EQ(index.find(hashes_of({4, 5}, 1))[0].blocks, 2);
    index.record(hashes_of({1, 2, 3, 4, 5, 6, 7, 8}, 1), {0, 1});
    EXPECT_EQ(index.size(), 5U) << "a text longer than all that is remembered";
    EXPECT_EQ(index.find(hashes_of({1, 2, 3, 4, 5, 6, 7, 8}, 1))[0].blocks, 5);
}

// The same, as plainly as possible: every block with the paths that have it, most recent first, and
// a list of the blocks in the order of use.
class PlainIndex {
  public:
    explicit PlainIndex(std::size_t max_blocks) : max_blocks_(max_blocks) {}

    void record(const std::vector<std::vector<Token>>& blocks, const Path& path) {
        for (std::size_t i = std::min(blocks.size(), max_blocks_); i > 0; --i) {
            const std::vector<Token>& block = blocks[i - 1];
            std::erase(order_, block);
            order_.push_back(block);
            std::vector<Path>& paths = paths_[block];
            std::erase(paths, path);
            paths.insert(paths.begin(), path);
            if (paths.size() > 4) paths.pop_back();
            if (order_.size() > max_blocks_) {
                paths_.erase(order_.front());
                order_.erase(order_.begin());
            }
        }
    }
    std::map<Path, std::int32_t> find(const std::vector<std::vector<Token>>& blocks) const {
        std::map<Path, std::int32_t> best;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            const auto found = paths_.find(blocks[i]);
            if (found == paths_.end()) break;
            for (const Path& path : found->second) {
                const auto known = best.find(path);
                const std::int32_t before = known == best.end() ? 0 : known->second;
                if (before == static_cast<std::int32_t>(i)) best[path] = before + 1;
            }
        }
        return best;
    }
    void forget(const std::vector<std::vector<Token>>& blocks, const Path& path) {
        for (const std::vector<Token>& block : blocks) {
            const auto found = paths_.find(block);
            if (found == paths_.end()) continue;
            std::erase(found->second, path);
            if (!found->second.empty()) continue;
            paths_.erase(found);
            std::erase(order_, block);
        }
    }
    std::size_t size() const { return order_.size(); }

  private:
    std::size_t max_blocks_;
    std::vector<std::vector<Token>> order_;
    std::map<std::vector<Token>, std::vector<Path>> paths_;  // by all tokens up to the block's end
};

TEST(PrefixIndex, BehavesAsAPlainMap) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        base::Random random(seed);
        const std::size_t max_blocks = 1 + random.below(30);
        PrefixIndex index(max_blocks);
        PlainIndex plain(max_blocks);
        for (int i = 0; i < 400; ++i) {
            // There are few different tokens, so that texts share beginnings.
            std::vector<Token> text(random.below(12));
            for (Token& token : text) token = static_cast<Token>(random.below(2));
            std::vector<std::vector<Token>> blocks;
            for (std::size_t end = 2; end <= text.size(); end += 2) {
                blocks.emplace_back(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end));
            }
            const auto hashes = hashes_of(text, 2);
            const auto path = Path{static_cast<std::int32_t>(random.below(6)), 9};
            if (random.chance(0.3)) {
                index.forget(hashes, path);
                plain.forget(blocks, path);
            } else if (random.chance(0.5)) {
                index.record(hashes, path);
                plain.record(blocks, path);
            }
            ASSERT_EQ(index.size(), plain.size());
            std::map<Path, std::int32_t> found;
            std::int32_t last = 100;
            for (const PrefixHit& hit : index.find(hashes)) {
                EXPECT_LE(hit.blocks, last);
                last = hit.blocks;
                found[hit.path] = hit.blocks;
            }
            ASSERT_EQ(found, plain.find(blocks));
        }
    }
}

}  // namespace
}  // namespace helix::core::prefix_index_test
