// rooms: store
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "shm_folder.h"
#include "store/job_store.h"

// Any bytes are a database of files and batches, of which everything can be asked for and changed,
// or an error that names the file. A content that is given out is as long as was promised.

namespace {

using helix::store::BatchStatus;
using helix::store::JobStore;

void use(JobStore& store) {
    const auto files = store.files({});
    const auto batches = store.batches({});
    (void)store.counts();
    if (files.ok()) {
        for (const auto& file : *files) {
            const auto bytes = store.content_bytes(file.id);
            const auto content = store.content(file.id);
            if (content.ok()) CHECK(bytes.ok() && std::ssize(*content) == *bytes);
            (void)store.read(file.id, 3, 100);
        }
    }
    if (!batches.ok()) return;
    for (const auto& batch : *batches) {
        CHECK(helix::store::to_string(batch.status) != nullptr);
        const auto lines = store.open_lines(batch.id, 0, 10);
        if (lines.ok()) {
            for (const auto& line : *lines)
                (void)store.read(batch.input_file, line.offset, line.bytes);
        }
        (void)store.add_results({{batch.id, 1, helix::store::Outcome::completed, "x"}});
        (void)store.cancel_batch(batch.id, 5);
        (void)store.close_batch(batch.id, BatchStatus::cancelled, 6);
    }
    if (files.ok() && !files->empty()) (void)store.remove_file(files->front().id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string& folder = helix::fuzz::empty_shm_folder();
    helix::fuzz::write_file(folder + "/helix.db", data, size);
    const auto store = JobStore::open(folder);
    if (store.ok()) {
        use(**store);
    } else {
        CHECK(store.error().message.find("helix.db") != std::string::npos);
    }
    return 0;
}
