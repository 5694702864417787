#include "node/wire_manifest.h"

#include <utility>

#include <fmt/format.h>

#include "model/limits.h"

namespace helix::node {

wire::Manifest to_wire(const model::ModelManifest& manifest) {
    wire::Manifest out;
    out.header_bytes = manifest.header.size();
    out.header_hash = base::hash128(manifest.header);
    for (const model::TensorDigest& tensor : manifest.tensors) {
        out.tensors.push_back({tensor.name, tensor.bytes, tensor.hash});
    }
    return out;
}

base::Result<model::ModelManifest> from_wire(wire::Manifest from, std::vector<std::byte> header,
                                             const base::Hash128& model_hash) {
    if (base::hash128(header) != from.header_hash) {
        return base::invalid("the model's header arrived damaged");
    }
    model::ModelManifest manifest;
    manifest.header = std::move(header);
    manifest.model_hash = model_hash;
    for (wire::ManifestTensor& tensor : from.tensors) {
        manifest.tensors.push_back({std::move(tensor.name), tensor.bytes, tensor.hash});
    }
    return manifest;
}

base::Result<model::ModelManifest> fetch_manifest(WeightFetcher& fetcher,
                                                  const base::Hash128& model_hash) {
    TRY(wire::Manifest manifest, fetcher.manifest());
    if (manifest.header_bytes > model::limits::kMaxHeaderBytes) {
        return base::invalid(fmt::format("the model's header has {} bytes, the limit is {}",
                                         manifest.header_bytes, model::limits::kMaxHeaderBytes));
    }
    std::vector<std::byte> header(manifest.header_bytes);
    TRY_VOID(fetcher.fetch_header(header));
    TRY(model::ModelManifest fetched,
        from_wire(std::move(manifest), std::move(header), model_hash));
    TRY_VOID(model::open_manifest(fetched));
    return fetched;
}

}  // namespace helix::node
