// rooms: store
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "shm_folder.h"
#include "store/placement_store.h"

// Any bytes are a database of placements, of which everything can be read and replaced, or an error
// that names the file.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string& folder = helix::fuzz::empty_shm_folder();
    helix::fuzz::write_file(folder + "/placement.db", data, size);
    const auto store = helix::store::PlacementStore::open(folder);
    if (!store.ok()) {
        CHECK(store.error().message.find("placement.db") != std::string::npos);
        return 0;
    }
    const auto placement = (*store)->load();
    const auto drains = (*store)->load_drains();
    if (placement.ok() && placement->has_value()) (void)(*store)->save(**placement);
    if (drains.ok()) (void)(*store)->save_drains(*drains);
    return 0;
}
