// This file has the worker's side of live migration: KV that moves between workers.

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/kv/admission.h"
#include "core/worker/worker_state.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

void refuse_kv(const SequenceKey& key, std::string reason, std::vector<WorkerAction>& actions,
               KvRefusal cause = KvRefusal::impossible) {
    actions.push_back(SendToCoordinator{KvRefused{key, cause, std::move(reason)}});
}

// Returns the key of the first member, under which everything of an attempt's migration goes.
SequenceKey head(const SequenceKey& key) {
    return {key.request, key.attempt, 0};
}

// The KV of one block of some layers, and where it belongs.
struct Content {
    std::vector<PageId> pages;  // by layer; kNoPage where it was given back or is not wanted
    std::vector<KvPlace> places;
};

// What SendKv asks for.
struct Gathered {
    std::vector<Content> contents;
    std::int64_t given_back = 0;  // as KvBlocks has it
};

// Collects it. A block that several members share is in it once. A request of several sequences
// gives nothing back, so what was given back is one sequence's.
Gathered gather(const SendKv& message, const SequenceTable& sequences, std::int32_t block_size) {
    Gathered all;
    std::map<std::vector<PageId>, std::size_t> known;
    for (const KvSpan& span : message.spans) {
        const Sequence& seq = *sequences.find({message.request, message.attempt, span.member});
        const std::int32_t first = message.layers.begin - seq.layers.begin;
        if (seq.table.has_window())
            all.given_back = std::max(message.given_back, seq.table.blocks_given_back());
        for (std::int32_t block = span.first_block; block * block_size < span.tokens; ++block) {
            const auto pages = seq.table.block(block);
            std::vector<PageId> listed;
            for (std::int32_t layer = first; layer < first + message.layers.size(); ++layer) {
                const bool none = seq.table.is_given_back(block, layer, all.given_back);
                listed.push_back(none ? kNoPage : pages[static_cast<std::size_t>(layer)]);
            }
            const auto [at, is_new] = known.emplace(listed, all.contents.size());
            if (is_new) all.contents.push_back({std::move(listed), {}});
            all.contents[at->second].places.push_back({span.member, block, 0});
        }
    }
    return all;
}

bool has_pages(const Content& content) {
    return std::any_of(content.pages.begin(), content.pages.end(),
                       [](PageId page) { return page != kNoPage; });
}

// Returns how many tokens of a block came with a message of these spans; 0 = the block is in none.
std::int32_t tokens_in(const std::vector<KvSpan>& spans, const KvPlace& place,
                       std::int32_t block_size) {
    for (const KvSpan& span : spans) {
        if (span.member != place.member || place.block < span.first_block) continue;
        const std::int64_t before = std::int64_t{place.block} * block_size;
        if (before >= span.tokens) continue;
        return static_cast<std::int32_t>(std::min<std::int64_t>(block_size, span.tokens - before));
    }
    return 0;
}

// Returns how many rows of a message lie before each content's, and at last how many it has;
// nothing where every content has one of each layer.
std::vector<std::size_t> content_starts(const KvBlocks& message,
                                        const spec::AttentionWindow& window) {
    const std::int32_t windowed = window.count(message.layers);
    if (windowed == 0) return {};
    std::vector<bool> short_of(message.payload.rows, false);
    for (const KvPlace& place : message.places) {
        if (place.block < message.given_back) short_of[place.content] = true;
    }
    std::vector<std::size_t> starts = {0};
    for (const bool is_short : short_of) {
        const std::int32_t rows = message.layers.size() - (is_short ? windowed : 0);
        starts.push_back(starts.back() + static_cast<std::size_t>(rows));
    }
    return starts;
}

// Returns what an import gives a place, by layer; kNoPage where it has nothing for it.
std::vector<PageId> content_pages(const KvImport& import, const KvPlace& place,
                                  const spec::AttentionWindow& window) {
    const LayerRange layers = import.message.layers;
    const auto size = static_cast<std::size_t>(layers.size());
    const bool whole = import.starts.empty();
    std::size_t at = whole ? place.content * size : import.starts[place.content];
    const std::size_t end = whole ? at + size : import.starts[place.content + 1];
    const bool is_short = end - at < size;
    std::vector<PageId> of;
    for (std::int32_t layer = layers.begin; layer < layers.end; ++layer)
        of.push_back(is_short && window.has(layer) ? kNoPage : import.pages[at++]);
    return of;
}

}  // namespace

// ---- room for what will come
// ----------------------------------------------------------------------

std::string Worker::Impl::cannot_reserve(const ReserveKv& message) const {
    if (!ready || layers_will_change() || !layers.contains(message.layers)) {
        return "this worker does not hold the layers";
    }
    for (const SequenceKey& other : sequences.group(message.key.request)) {
        if (other.attempt >= message.key.attempt) return "superseded by a newer attempt";
    }
    const auto newer = parcels.upper_bound(message.key);
    if (newer != parcels.end() && newer->first.request == message.key.request) {
        return "superseded by a newer attempt";
    }
    if (message.blocks < 1 || message.blocks > pool.total()) {
        return "no room for " + std::to_string(message.blocks) + " blocks";
    }
    if (message.given_back < 0 || message.given_back > message.blocks) {
        return std::to_string(message.given_back) + " of " + std::to_string(message.blocks) +
               " blocks given back";
    }
    return "";
}

void Worker::Impl::reserve_kv(const ReserveKv& message, std::vector<WorkerAction>& actions) {
    if (tombstone_set.contains(message.key)) return;  // it was given up since
    const std::string wrong = cannot_reserve(message);
    if (!wrong.empty()) return refuse_kv(message.key, wrong, actions);
    const auto found = parcels.find(message.key);
    if (found != parcels.end() && found->second.taken()) return;  // it came late
    drop_older_parcels(message.key);
    // Layers that an older attempt runs here need no pages: the new attempt will share those of the
    // older.
    std::int64_t coming = 0;
    for (std::int32_t layer = message.layers.begin; layer < message.layers.end; ++layer) {
        const auto group = sequences.group(message.key.request);
        const bool here = std::any_of(group.begin(), group.end(), [&](const SequenceKey& key) {
            return sequences.find(key)->layers.contains(layer);
        });
        if (here) continue;
        coming += message.blocks - (config.window.has(layer) ? message.given_back : 0);
    }
    const std::int64_t has = found == parcels.end() ? 0 : found->second.reserved_pages();
    const std::int64_t pages = std::max<std::int64_t>(0, coming - has);
    if (pages > 0 && can_allocate(pages, pool.free_pages(), pool.total()) != KvRoom::ok) {
        return refuse_kv(message.key,
                         std::to_string(pages) + " KV pages to reserve, " +
                             std::to_string(pool.free_pages()) + " of " +
                             std::to_string(pool.total()) + " are free",
                         actions);
    }
    make_room(pages);
    std::vector<PageId> spare;
    CHECK(pool.allocate(pages, spare));
    KvParcel& parcel =
        parcels.try_emplace(message.key, message.key, message.layers, std::span<const PageId>())
            .first->second;
    parcel.add_spare(spare);
    parcel.last_heard = now;
    if (found == parcels.end()) parcel.serial = next_transfer++;
    actions.push_back(SendToCoordinator{KvReserved{message.key}});
}

// ---- what goes
// ------------------------------------------------------------------------------------

std::string Worker::Impl::cannot_send(const SendKv& message, const KvSpan& span) const {
    const SequenceKey key{message.request, message.attempt, span.member};
    const std::string who = "member " + std::to_string(span.member);
    const Sequence* seq = sequences.find(key);
    if (seq == nullptr || seq->ending) return who + " is not here";
    if (seq->swapped) return who + " is swapped out";
    if (!config.kv_layers(seq->layers).contains(message.layers))
        return who + " does not run these layers here";
    if (span.first_block < 0 || seq->computed < span.tokens) {
        return who + " has " + std::to_string(seq->computed) + " tokens here, not " +
               std::to_string(span.tokens);
    }
    if (!running) return "";
    const auto& moved = running->moved;
    if (std::find(moved.begin(), moved.end(), key) != moved.end()) {
        return who + " is being swapped in";
    }
    // The batch writes to the block that is not full.
    if (seq->in_batch && span.tokens % config.block_size != 0) return who + " runs";
    return "";
}

std::string Worker::Impl::cannot_send(const SendKv& message) const {
    if (!ready || layers_will_change() || message.layers.empty()) {
        return "this worker does not hold the layers";
    }
    bool some = false;
    for (const KvSpan& span : message.spans) {
        const std::string wrong = cannot_send(message, span);
        if (!wrong.empty()) return wrong;
        some = some || std::int64_t{span.first_block} * config.block_size < span.tokens;
    }
    return some ? "" : "asked for no KV";
}

void Worker::Impl::send_kv(const SendKv& message, std::vector<WorkerAction>& actions) {
    const SequenceKey key{message.request, message.next_attempt, 0};
    if (tombstone_set.contains(key)) return;  // it was given up since
    drop_exports([&](const KvExport& one) {
        return one.message.key.request == key.request && one.message.key.attempt < key.attempt;
    });
    const std::string wrong = cannot_send(message);
    if (!wrong.empty()) return refuse_kv(key, wrong, actions);
    // From here on a batch that writes to one of these pages writes to a copy.
    for (const KvSpan& span : message.spans) {
        BlockTable& table = sequences.find({message.request, message.attempt, span.member})->table;
        table.name_pages(pool);
        table.note_shared();
    }
    if (message.to == self) return share_kv(message, actions);
    export_kv(message, actions);
    start_exports(actions);
}

void Worker::Impl::share_kv(const SendKv& message, std::vector<WorkerAction>& actions) {
    const SequenceKey key{message.request, message.next_attempt, 0};
    const auto found = parcels.find(key);
    if (found == parcels.end() || !found->second.layers().contains(message.layers)) {
        return refuse_kv(key, "nothing is reserved here", actions);
    }
    KvParcel& parcel = found->second;
    if (parcel.taken()) return;
    parcel.begin_members(message.spans, pool);
    for (const Content& content : gather(message, sequences, config.block_size).contents) {
        for (const KvPlace& place : content.places) {
            const std::int32_t tokens = tokens_in(message.spans, place, config.block_size);
            parcel.place(place.member, place.block, message.layers, content.pages, pool);
            parcel.fill(place.member, place.block, message.layers, content.pages, tokens);
        }
    }
    parcel.last_heard = now;
    actions.push_back(SendToCoordinator{KvArrived{key, message.round, message.layers}});
}

void Worker::Impl::export_kv(const SendKv& message, std::vector<WorkerAction>& actions) {
    auto [contents, given_back] = gather(message, sequences, config.block_size);
    std::erase_if(contents, [](const Content& content) { return !has_pages(content); });
    if (contents.empty()) {  // so nothing of it is missing there
        actions.push_back(SendToCoordinator{
            KvArrived{{message.request, message.next_attempt, 0}, message.round, message.layers}});
        return;
    }
    const auto each =
        static_cast<std::size_t>(std::max(1, config.transfer_pages / message.layers.size()));
    const std::size_t parts = (contents.size() + each - 1) / each;
    for (std::size_t part = 0; part < parts; ++part) {
        KvExport one;
        one.attempt = message.attempt;
        one.to = message.to;
        one.message.key = {message.request, message.next_attempt, 0};
        one.message.round = message.round;
        one.message.layers = message.layers;
        one.message.part = static_cast<std::uint32_t>(part);
        one.message.parts = static_cast<std::uint32_t>(parts);
        one.message.spans = message.spans;
        one.message.given_back = given_back;
        one.held = message.held;
        const std::size_t end = std::min(contents.size(), (part + 1) * each);
        for (std::size_t i = part * each; i < end; ++i) {
            for (KvPlace& place : contents[i].places) {
                place.content = one.message.payload.rows;
                one.message.places.push_back(place);
            }
            ++one.message.payload.rows;
            for (const PageId page : contents[i].pages) {
                if (page == kNoPage) continue;
                pool.acquire(page);
                one.pages.push_back(page);
            }
        }
        exports.push_back(std::move(one));
    }
}

void Worker::Impl::start_exports(std::vector<WorkerAction>& actions) {
    if (layers_will_change()) return;
    bool paced = std::any_of(exports.begin(), exports.end(),
                             [](const KvExport& one) { return one.transfer != 0 && !one.held; });
    for (KvExport& one : exports) {
        if (one.transfer != 0 || (paced && !one.held)) continue;
        paced = paced || !one.held;
        one.transfer = next_transfer++;
        actions.push_back(ExportKv{one.transfer, one.to, one.message, one.pages, one.held});
    }
}

void Worker::Impl::on(const KvExported& event, std::vector<WorkerAction>& actions) {
    const auto done = std::find_if(exports.begin(), exports.end(), [&](const KvExport& one) {
        return one.transfer == event.transfer;
    });
    CHECK(event.transfer != 0 && done != exports.end());
    pool.release(done->pages);
    exports.erase(done);
    start_exports(actions);
    assign_deferred(actions);
}

void Worker::Impl::on(const PeerBroken& event, std::vector<WorkerAction>& actions) {
    drop_exports([&](const KvExport& one) { return one.to == event.peer; });
    links_broke[event.peer] = now;
    if (event.down) {
        unreached[event.peer] = event.endpoint;
    } else {
        unreached.erase(event.peer);
    }
    actions.push_back(SendToCoordinator{PeerLost{event.peer, event.down, event.endpoint}});
}

void Worker::Impl::tell_unreached(std::vector<WorkerAction>& actions) const {
    for (const auto& [peer, endpoint] : unreached) {
        actions.push_back(SendToCoordinator{PeerLost{peer, true, endpoint}});
    }
}

// ---- what comes
// -----------------------------------------------------------------------------------

void Worker::Impl::receive_kv(const KvBlocks& message, std::vector<WorkerAction>& actions) {
    const std::uint64_t buffer = message.payload.buffer;
    if (buffer != 0) buffer_uses.add(buffer, 1);
    const std::size_t before = imports.size();
    const std::string wrong = import_kv(message, actions);
    if (imports.size() == before) release_use(buffer, actions);
    if (!wrong.empty()) refuse_kv(message.key, wrong, actions);
}

// Starts the import, unless nobody waits for it any more. Returns what is wrong, or nothing.
std::string Worker::Impl::import_kv(const KvBlocks& message, std::vector<WorkerAction>& actions) {
    const auto found = parcels.find(message.key);
    if (found == parcels.end() || found->second.taken() || layers_will_change()) return "";
    KvParcel& parcel = found->second;
    const std::uint32_t blocks = message.payload.rows;
    if (message.layers.empty() || !parcel.layers().contains(message.layers) || blocks == 0 ||
        message.payload.buffer == 0 || message.part >= message.parts || message.given_back < 0) {
        return "KV came that was not asked for";
    }
    for (const KvPlace& place : message.places) {
        if (place.content >= blocks || place.block < 0 ||
            tokens_in(message.spans, place, config.block_size) == 0) {
            return "KV came for block " + std::to_string(place.block) + ", which was not asked for";
        }
    }
    const KvParcel::Part part = parcel.note_part(message);
    if (part == KvParcel::Part::repeated) return "";
    if (part == KvParcel::Part::foreign) return "KV came in parts that do not belong together";
    std::vector<std::size_t> starts = content_starts(message, config.window);
    const std::int64_t rows = starts.empty() ? std::int64_t{blocks} * message.layers.size()
                                             : static_cast<std::int64_t>(starts.back());
    auto pages = parcel.take_spare(rows);
    if (!pages) return "KV came for more blocks than are reserved";
    KvImport import{next_transfer++, parcel.serial, message, std::move(*pages), std::move(starts)};
    parcel.begin_members(message.spans, pool);
    for (const KvPlace& place : message.places) {
        parcel.place(place.member, place.block, message.layers,
                     content_pages(import, place, config.window), pool);
    }
    parcel.last_heard = now;
    std::vector<std::uint32_t> content(import.pages.size());
    std::iota(content.begin(), content.end(), 0U);
    actions.push_back(ImportKv{import.transfer, message.payload.buffer,
                               static_cast<std::uint32_t>(content.size()), std::move(content),
                               import.pages});
    if (planted(PlantedBug::arrived_before_written)) note_written(parcel, import, actions);
    imports.push_back(std::move(import));
    return "";
}

void Worker::Impl::note_written(KvParcel& parcel, const KvImport& import,
                                std::vector<WorkerAction>& actions) const {
    const KvBlocks& message = import.message;
    for (const KvPlace& place : message.places) {
        parcel.fill(place.member, place.block, message.layers,
                    content_pages(import, place, config.window),
                    tokens_in(message.spans, place, config.block_size));
    }
    parcel.last_heard = now;
    if (!parcel.note_arrived(message.round, message.layers)) return;
    actions.push_back(SendToCoordinator{KvArrived{message.key, message.round, message.layers}});
}

void Worker::Impl::on(const KvImported& event, std::vector<WorkerAction>& actions) {
    const auto at = std::find_if(imports.begin(), imports.end(), [&](const KvImport& import) {
        return import.transfer == event.transfer;
    });
    CHECK(at != imports.end());
    const KvImport import = std::move(*at);
    imports.erase(at);
    release_use(import.message.payload.buffer, actions);
    const KvBlocks& message = import.message;
    const auto found = parcels.find(message.key);
    const bool awaited = found != parcels.end() && found->second.serial == import.parcel;
    if (awaited && !event.error.empty()) {
        refuse_kv(message.key, event.error, actions, KvRefusal::failed);
    } else if (awaited && !planted(PlantedBug::arrived_before_written)) {
        note_written(found->second, import, actions);
    }
    pool.release(import.pages);
    assign_deferred(actions);
}

// ---- what becomes of it
// ---------------------------------------------------------------------------

bool Worker::Impl::adopt(Sequence& seq) {
    const auto found = parcels.find(head(seq.key));
    const LayerRange layers_moved = config.kv_layers(seq.layers);
    if (found == parcels.end() || found->second.layers() != layers_moved) return false;
    const std::int32_t cached = seq.start->cached_tokens();
    const std::int64_t needless = seq.table.needless_blocks(cached);
    const std::vector<PageId> pages = found->second.pages_of(
        seq.key.member, cached, config.block_size, [&](std::int64_t block, std::int32_t layer) {
            return seq.table.is_given_back(block, layer, needless);
        });
    if (pages.empty()) return false;
    const auto size = static_cast<std::size_t>(layers_moved.size());
    for (std::size_t at = 0; at < pages.size(); at += size) {
        seq.table.share_block(std::span(pages).subspan(at, size), pool);
    }
    seq.table.note_shared();  // members may share blocks
    seq.begin_after_cached();
    found->second.last_heard = now;
    if (found->second.drop_member(seq.key.member, true, pool)) parcels.erase(found);
    return true;
}

void Worker::Impl::free_parcel(const SequenceKey& key) {
    drop_exports([&](const KvExport& one) {
        if (one.message.key.request != key.request) return false;
        if (one.message.key.attempt == key.attempt) return true;
        const auto group = sequences.group(key.request);
        return std::none_of(group.begin(), group.end(), [&](const SequenceKey& other) {
            return other.attempt == one.attempt && !sequences.find(other)->ending;
        });
    });
    const auto found = parcels.find(head(key));
    if (found == parcels.end()) return;
    if (!found->second.taken()) {
        bury(found->first);
        if (!planted(PlantedBug::parcel_leaked_on_abort)) found->second.drop_all(pool);
        parcels.erase(found);
    } else if (found->second.drop_member(key.member, false, pool)) {
        parcels.erase(found);
    }
}

void Worker::Impl::drop_older_parcels(const SequenceKey& key) {
    auto at = parcels.lower_bound({key.request, 0, 0});
    while (at != parcels.end() && at->first < head(key)) {
        at->second.drop_all(pool);
        at = parcels.erase(at);
    }
}

void Worker::Impl::drop_orphans(std::vector<WorkerAction>& actions) {
    for (auto at = parcels.begin(); at != parcels.end();) {
        const bool arrives =
            std::any_of(imports.begin(), imports.end(),
                        [&](const KvImport& import) { return import.message.key == at->first; });
        if (arrives || now - at->second.last_heard < config.orphan_timeout) {
            ++at;
            continue;
        }
        refuse_kv(at->first, "nothing was heard of it for too long", actions, KvRefusal::unheard);
        at->second.drop_all(pool);
        at = parcels.erase(at);
    }
}

void Worker::Impl::drop_all_parcels() {
    CHECK(!moves_kv());
    for (auto& [key, parcel] : parcels) parcel.drop_all(pool);
    parcels.clear();
    drop_exports([](const KvExport&) { return true; });
}

}  // namespace helix::core
