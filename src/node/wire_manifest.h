#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "model/manifest.h"
#include "node/weight_fetcher.h"
#include "wire/messages.h"

namespace helix::node {

// The manifest as it goes over the wire, without the header itself.
wire::Manifest to_wire(const model::ModelManifest& manifest);
// Puts one together from what arrived. Error invalid: the header is not the manifest's.
base::Result<model::ModelManifest> from_wire(wire::Manifest from, std::vector<std::byte> header,
                                             const base::Hash128& model_hash);
// Brings that of the model with this hash over the wire, and checks it; waits for it.
base::Result<model::ModelManifest> fetch_manifest(WeightFetcher& fetcher,
                                                  const base::Hash128& model_hash);

}  // namespace helix::node
